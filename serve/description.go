package serve

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var description []byte

// describe answers GET /openapi.yaml.
func (s *Server) describe(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(description) //nolint:errcheck // fails only if the client has left
	return nil
}
