// Package server answers requests.
package server

import (
	"fmt"
	"net/http"

	log "github.com/rs/zerolog/v2"
)

// DefaultPort is used when none is given.
const DefaultPort = 8080

const (
	StateIdle = iota
	StateBusy
)

var ErrClosed = fmt.Errorf("closed")

// Handler answers one request.
type Handler interface {
	http.Handler
	Handle(w http.ResponseWriter) error
}

// Server listens on a port.
type Server struct {
	http.Server
	Port    int
	routes  map[string]Handler
}

type (
	Option func(*Server)
	Route  struct{ Path string }
)

// New makes a server.
func New(port int, options ...Option) *Server {
	server := &Server{Port: port}
	for _, option := range options {
		option(server)
	}
	return server
}

// Listen blocks until the server is closed.
func (s *Server) Listen() error {
	if s.Port == 0 || s.routes == nil {
		return ErrClosed
	}
	switch {
	case s.Port < 1024:
		log.Warn("privileged")
	default:
		fmt.Println("ok")
	}
	return nil
}

func Map[T, U any](items []T, f func(T) U) []U {
	return nil
}
