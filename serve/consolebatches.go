package serve

import (
	"net/http"
	"time"

	"github.com/ingot-run/ingot/serve/batch"
	"github.com/ingot-run/ingot/serve/console"
)

// consoleBatches is the number of batches on one page.
const consoleBatches = 50

// activeBatches returns those of the newest maxBatches batches that have not ended.
func (s *Server) activeBatches() ([]console.Batch, error) {
	page, err := s.options.Store.Progress(batch.Query{Limit: maxBatches})
	if err != nil {
		return nil, err
	}
	var active []console.Batch
	for _, p := range page.Items {
		if !p.Batch.Status.Ended() {
			active = append(active, consoleBatch(p))
		}
	}
	return active, nil
}

func consoleBatch(p batch.Progress) console.Batch {
	b := p.Batch
	counts := b.RequestCounts
	shown := console.Batch{
		ID: b.ID, Status: string(b.Status), Model: b.Model, Endpoint: string(b.Endpoint),
		Total: counts.Total, Completed: counts.Completed, Failed: counts.Failed,
		RowsPerSecond: p.RowsPerSecond, TokensPerSecond: p.TokensPerSecond,
		Created: time.Unix(b.CreatedAt, 0), Ended: b.Status.Ended(), Cancelling: b.Status == batch.Cancelling,
	}
	if p.RowsPerSecond > 0 {
		left := counts.Total - shown.Finished()
		shown.Left = time.Duration(float64(left) / p.RowsPerSecond * float64(time.Second))
	}
	return shown
}

// showBatchTable answers GET /console/batches.
func (s *Server) showBatchTable(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	after := r.URL.Query().Get("after")
	page, err := store.Progress(batch.Query{After: after, Limit: consoleBatches})
	if err != nil {
		return storeError(r, err)
	}
	shown := console.Batches{Frame: s.frame(r, "Batches", console.BatchesSection, nil), Later: after != ""}
	for _, p := range page.Items {
		shown.Batches = append(shown.Batches, consoleBatch(p))
	}
	if page.More {
		shown.Next = page.Items[len(page.Items)-1].Batch.ID
	}
	s.show(w, r, http.StatusOK, shown)
	return nil
}

// showBatchPage answers GET /console/batches/{id}.
func (s *Server) showBatchPage(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	p, err := store.BatchProgress(r.PathValue("id"))
	if err != nil {
		return storeError(r, err)
	}
	b := p.Batch
	shown := console.BatchPage{
		Frame: s.frame(r, "Batch "+b.ID, console.BatchesSection, nil), Batch: consoleBatch(p), Metadata: b.Metadata, Times: moments(b),
	}
	shown.Files = append(shown.Files, console.File{ID: b.InputFileID, Kind: "Input"})
	for _, f := range []struct {
		kind string
		id   *string
	}{{"Output", b.OutputFileID}, {"Errors", b.ErrorFileID}} {
		if f.id != nil {
			shown.Files = append(shown.Files, console.File{ID: *f.id, Kind: f.kind})
		}
	}
	if b.Errors != nil {
		for _, f := range b.Errors.Data {
			fault := console.Fault{Message: f.Message}
			if f.Line != nil {
				fault.Line = *f.Line
			}
			shown.Faults = append(shown.Faults, fault)
		}
	}
	s.show(w, r, http.StatusOK, shown)
	return nil
}

// moments returns the times of the states that a batch has reached. If the batch has not ended, the last moment is the end of its
// completion window.
func moments(b batch.Batch) []console.Moment {
	reached := []console.Moment{{Name: "Created", At: time.Unix(b.CreatedAt, 0)}}
	for _, m := range []struct {
		name string
		at   *int64
	}{
		{"Started", b.InProgressAt}, {"Finalizing", b.FinalizingAt}, {"Cancelling", b.CancellingAt},
		{"Completed", b.CompletedAt}, {"Failed", b.FailedAt}, {"Expired", b.ExpiredAt}, {"Cancelled", b.CancelledAt},
	} {
		if m.at != nil {
			reached = append(reached, console.Moment{Name: m.name, At: time.Unix(*m.at, 0)})
		}
	}
	if !b.Status.Ended() {
		reached = append(reached, console.Moment{Name: "Expires", At: time.Unix(b.ExpiresAt, 0)})
	}
	return reached
}

// cancelOnPage answers POST /console/batches/{id}/cancel.
func (s *Server) cancelOnPage(w http.ResponseWriter, r *http.Request) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	b, err := store.CancelBatch(r.PathValue("id"))
	if err != nil {
		return storeError(r, err)
	}
	http.Redirect(w, r, "/console/batches/"+b.ID, http.StatusSeeOther)
	return nil
}
