package serve

import (
	"errors"
	"net/http"

	"github.com/ingot-run/ingot/serve/batch"
)

// store returns the store of files and batches. Without a store, it returns the error of an unknown URL, so that clients can tell that
// the server has no files.
func (s *Server) store() (*batch.Store, error) {
	if s.options.Store == nil {
		return nil, failf(http.StatusNotFound, "", "unknown_url", "this server has no files and batches: start it with --data FOLDER")
	}
	return s.options.Store, nil
}

// storeError returns the response to an error of the store. It takes the id of a missing file or batch from the request's path.
func storeError(r *http.Request, err error) error {
	var request *batch.RequestError
	switch id := r.PathValue("id"); {
	case errors.As(err, &request):
		return failf(http.StatusBadRequest, request.Param, request.Code, "%s", request.Message)
	case errors.Is(err, batch.ErrNoFile):
		return failf(http.StatusNotFound, "file_id", "file_not_found", "there is no file with the id %.100q", id)
	case errors.Is(err, batch.ErrNoBatch):
		return failf(http.StatusNotFound, "batch_id", "batch_not_found", "there is no batch with the id %.100q", id)
	}
	return err
}
