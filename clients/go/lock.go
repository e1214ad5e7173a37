package baton

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The longest that the sidecar waits for a lock at a time.
const lockWaitMax = time.Hour

// Forever waits for a lock as long as it takes.
const Forever = time.Duration(1<<63 - 1)

// LockOptions may be left empty.
type LockOptions struct {
	// Wait is how long to wait for the lock; Forever is as long as it takes.
	Wait time.Duration
	// Owner may take the lock again while it has it. Nobody is the same as nobody.
	Owner string
	// Lease is how long the lock lasts when the sidecar has died; locks.lease of its configuration if it is zero.
	Lease time.Duration
	// Fair: first come, first served.
	Fair bool
	// Permits is how many may hold it at once. All say the same number; zero is one.
	Permits int
	// Margin is that of LeadOptions.
	Margin time.Duration
}

// Lock is the time for which a lock is held.
type Lock struct {
	claim *claim
}

// Token is the fencing token. Ask for it each time that something is written with it: that is the check. The error is
// ErrLost when the lock is over.
func (l *Lock) Token() (uint64, error) {
	return l.claim.token()
}

// Left is how long the lock lasts if no more is promised; zero when it is over.
func (l *Lock) Left() time.Duration {
	return l.claim.left()
}

// Locked takes a lock and calls work, whose context is cancelled when the lock is over. When work has returned, the
// lock is given back; it is free, too, when this process has ended.
//
// It returns what work returned, or ErrLost if the lock was over before work returned without an error, or a
// [*Refused] ([IsHeld]: another has it and the wait is over), or ErrUnreachable when there is no sidecar.
func (c *Client) Locked(
	ctx context.Context, name string, options LockOptions, work func(ctx context.Context, lock *Lock) error,
) error {
	query := url.Values{}
	if options.Owner != "" {
		query.Set("owner", options.Owner)
	}
	if options.Lease != 0 {
		query.Set("lease", milliseconds(options.Lease))
	}
	if options.Fair {
		query.Set("fair", "true")
	}
	if options.Permits != 0 {
		query.Set("permits", strconv.Itoa(options.Permits))
	}
	claim, err := c.claim(ctx, &lockSource{c, "/locks/" + url.PathEscape(name), query, options.Wait}, options.Margin)
	if err != nil {
		return err
	}
	isOver, err := claim.run(func(ctx context.Context) error { return work(ctx, &Lock{claim}) })
	if err == nil && isOver {
		return context.Cause(claim.ctx)
	}
	return err
}

type lockSource struct {
	client *Client
	path   string
	query  url.Values
	wait   time.Duration
}

func milliseconds(span time.Duration) string {
	return fmt.Sprintf("%dms", span.Milliseconds())
}

func (s *lockSource) open(ctx context.Context) (*opened, error) {
	begun := time.Now()
	for {
		left := max(0, s.wait-time.Since(begun))
		wait := min(left, lockWaitMax)
		s.query.Set("wait", milliseconds(wait))
		var first struct {
			Lock       string `json:"lock"`
			Token      uint64 `json:"token"`
			ValidForMs int64  `json:"valid_for_ms"`
		}
		granted, err := s.client.open(ctx, s.path+"/hold?"+s.query.Encode(), wait, &first)
		if err != nil {
			if IsHeld(err) && left > wait && ctx.Err() == nil {
				continue
			}
			return nil, err
		}
		granted.name, granted.token = first.Lock, first.Token
		granted.validity = time.Duration(first.ValidForMs) * time.Millisecond
		return granted, nil
	}
}

func (s *lockSource) lostBy(text []byte, _ *opened) string {
	var line struct {
		Lost string `json:"lost"`
	}
	if json.Unmarshal(text, &line) != nil {
		return "the connection to the sidecar says what nobody understands"
	}
	return line.Lost
}

func (s *lockSource) ask(
	ctx context.Context, line *line, claim *opened, timeout time.Duration,
) (time.Duration, string) {
	response, err := line.ask(ctx, http.MethodPut, s.path+"/"+claim.name, timeout, nil)
	switch {
	case err != nil:
		return 0, ""
	case response.StatusCode == http.StatusGone:
		return 0, "the lock is lost"
	case response.StatusCode != http.StatusNoContent:
		return 0, ""
	}
	// What is no number promises nothing.
	ms, _ := strconv.ParseInt(response.Header.Get("Baton-Valid-For-Ms"), 10, 64)
	return time.Duration(ms) * time.Millisecond, ""
}

func (s *lockSource) leave(ctx context.Context, line *line, claim *opened) {
	// Whether it was heard changes nothing here.
	_, _ = line.ask(ctx, http.MethodDelete, s.path+"/"+claim.name, leaveTimeout, nil)
}
