package serve

import (
	"errors"
	"net/http"

	"github.com/ingot-run/ingot/serve/batch"
)

// store returns the store of files and batches. The error is that of an unknown path if there is none: clients probe for it.
func (s *Server) store() (*batch.Store, error) {
	if s.options.Store == nil {
		return nil, failf(http.StatusNotFound, "", "unknown_url", "this server has no files and batches: start it with --data FOLDER")
	}
	return s.options.Store, nil
}

// storeError is the response to an error of the store. A file or batch that is missing is the one that the request's path names.
func storeError(r *http.Request, err error) error {
	var request *batch.RequestError
	switch id := r.PathValue("id"); {
	case errors.As(err, &request):
		return failf(http.StatusBadRequest, request.Param, request.Code, "%s", request.Message)
	case errors.Is(err, batch.ErrNoFile):
		return failf(http.StatusNotFound, "file_id", "file_not_found", "no file has the id %.100q", id)
	case errors.Is(err, batch.ErrNoBatch):
		return failf(http.StatusNotFound, "batch_id", "batch_not_found", "no batch has the id %.100q", id)
	}
	return err
}
