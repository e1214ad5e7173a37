package baton

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Run is an attempt at a run of a job, as the sidecar asks for it.
type Run struct {
	// ID is the run's, the same for all its attempts.
	ID string
	// ScheduledTime is when it was due.
	ScheduledTime time.Time
	// Attempt is 1, 2, 3, …
	Attempt int
	// Token is the fencing token of this attempt: hand it on to whatever is written to.
	Token uint64
	// Shard is the number of its shard; nil where the role is not split.
	Shard *int
	// Body is what the configuration has the sidecar send.
	Body []byte
}

// JobHandler does a job's work when the sidecar asks for it. What work returns is the note of the attempt; an error
// makes it fail. The context is cancelled when the sidecar lets go of the request. An attempt whose token is smaller
// than one that was seen of its shard is refused: a later leader has sent that.
func JobHandler(work func(ctx context.Context, run Run) (note string, err error)) http.Handler {
	return &jobHandler{work: work, greatest: map[int]uint64{}}
}

type jobHandler struct {
	work  func(context.Context, Run) (string, error)
	mutex sync.Mutex
	// Of each shard: tokens of two do not compare.
	greatest map[int]uint64
}

func (h *jobHandler) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	run, err := read(request)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	if greatest := h.raise(run); run.Token < greatest {
		http.Error(writer, fmt.Sprintf("token %d: a later leader has sent %d", run.Token, greatest), http.StatusConflict)
		return
	}
	note, err := h.work(request.Context(), run)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusInternalServerError)
		return
	}
	writer.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// The sidecar may have let go of it.
	_, _ = io.WriteString(writer, note)
}

func (h *jobHandler) raise(run Run) uint64 {
	shard := -1
	if run.Shard != nil {
		shard = *run.Shard
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.greatest[shard] = max(h.greatest[shard], run.Token)
	return h.greatest[shard]
}

func read(request *http.Request) (run Run, err error) {
	header := func(name string) string {
		value := request.Header.Get(name)
		if value == "" && err == nil {
			err = fmt.Errorf("the header %s is missing: this is for the sidecar's jobs", name)
		}
		return value
	}
	check := func(name string, wrong error) {
		if err == nil && wrong != nil {
			err = fmt.Errorf("%s is not what the sidecar sends: %w", name, wrong)
		}
	}
	var wrong error
	run.ID = header("Baton-Run-Id")
	run.ScheduledTime, wrong = time.Parse(time.RFC3339, header("Baton-Scheduled-Time"))
	check("Baton-Scheduled-Time", wrong)
	run.Attempt, wrong = strconv.Atoi(header("Baton-Attempt"))
	check("Baton-Attempt", wrong)
	run.Token, wrong = strconv.ParseUint(header("Baton-Fencing-Token"), 10, 64)
	check("Baton-Fencing-Token", wrong)
	if shard := request.Header.Get("Baton-Shard"); shard != "" {
		number, wrong := strconv.Atoi(shard)
		check("Baton-Shard", wrong)
		run.Shard = &number
	}
	if err == nil {
		run.Body, err = io.ReadAll(io.LimitReader(request.Body, bodyMax))
	}
	return run, err
}
