package clientgo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	baton "example.com/baton-sidecar-go"
)

// A sidecar is one that does as the test says, where a real one would need luck.
type sidecar struct {
	server *httptest.Server

	mutex sync.Mutex
	leads bool
	token uint64
	// What it promises.
	validFor time.Duration
	holds    int
	// The holds whose work is said to have stopped.
	drained []string
}

func fake(t *testing.T) *sidecar {
	t.Helper()
	s := &sidecar{leads: true, token: 1, validFor: 3 * time.Second}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /leader/scheduler/hold", s.hold)
	routes.HandleFunc("GET /leader/scheduler", s.tell)
	routes.HandleFunc("POST /leader/scheduler/drained", s.drain)
	s.server = httptest.NewServer(routes)
	t.Cleanup(func() {
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

func (s *sidecar) answer(response http.ResponseWriter, hold string) {
	// A test's own server is written to for as long as anybody reads.
	_ = json.NewEncoder(response).Encode(map[string]any{
		"leader": s.leads, "token": s.token, "valid_for_ms": s.validFor.Milliseconds(), "hold": hold,
	})
}

func (s *sidecar) hold(response http.ResponseWriter, request *http.Request) {
	s.mutex.Lock()
	if !s.leads {
		s.mutex.Unlock()
		response.WriteHeader(http.StatusConflict)
		return
	}
	s.holds++
	s.answer(response, fmt.Sprint("hold-", s.holds))
	s.mutex.Unlock()
	http.NewResponseController(response).Flush()
	<-request.Context().Done()
}

func (s *sidecar) tell(response http.ResponseWriter, request *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answer(response, request.FormValue("hold"))
}

func (s *sidecar) drain(_ http.ResponseWriter, request *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.drained = append(s.drained, request.FormValue("hold"))
}

// now changes what it says from now on.
func (s *sidecar) now(leads bool, token uint64, validFor time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.leads, s.token, s.validFor = leads, token, validFor
}

// heard is how many holds it gave, and of which it was told that the work has stopped.
func (s *sidecar) heard() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return fmt.Sprint(s.holds, s.drained)
}

func (s *sidecar) lock(t *testing.T) *Lock {
	t.Helper()
	return newLock(t, s.server.URL, short)
}

func newLock(t *testing.T, url string, timings Timings) *Lock {
	t.Helper()
	client, err := baton.New(baton.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := New(client, "scheduler", Options{Identity: "app", Timings: timings})
	if err != nil {
		t.Fatal(err)
	}
	return lock
}
