package serve

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// checkPage refuses requests that a browser sends for a web page of another site, and requests
// under a host name that may lead here only by DNS rebinding. Without it, every page that a person
// opens could use a server without API keys. With keys, a page would need one.
func (s *Server) checkPage(r *http.Request) error {
	if s.options.Keys != nil {
		return nil
	}
	if err := s.checkHost(r); err != nil {
		return err
	}
	if allowed := s.options.Origin; allowed == "*" || allowed != "" && allowed == r.Header.Get("Origin") {
		return nil
	}
	return checkSite(r)
}

// checkHost refuses a request to a server without keys under an unknown host name. An IP address
// needs no check, since a page whose host is an address comes from that address.
func (s *Server) checkHost(r *http.Request) error {
	if s.options.Keys != nil || s.options.AnyHost {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if err == nil || host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.EqualFold(host, s.options.Host) {
		return nil
	}
	return failf(http.StatusForbidden, "", "unknown_host",
		"a server without API keys is not used under the name %.100q: use its address or localhost, or start it with --api-key-file FILE or --allow-anyone", r.Host)
}

func checkSite(r *http.Request) error {
	var pages http.CrossOriginProtection
	if pages.Check(r) == nil {
		return nil
	}
	return failf(http.StatusForbidden, "", "cross_site_request",
		"the request was sent by a page of another site: use the pages of this server, or start it with --cors-origin ORIGIN to let the pages of that origin use the API")
}

// crossOrigin wraps a handler so that web pages of the allowed origin can use the server.
func (s *Server) crossOrigin(next http.Handler) http.Handler {
	allowed := s.options.Origin
	if allowed == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		w.Header().Add("Vary", "Origin")
		if origin == "" || allowed != "*" && origin != allowed {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", allowed)
		h.Set("Access-Control-Expose-Headers", "X-Request-Id, Retry-After")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
				h.Set("Access-Control-Allow-Headers", asked)
			}
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}
