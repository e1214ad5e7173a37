package baton

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Scope says who acts upon a lead.
type Scope string

const (
	// Pod: others in the pod may act upon the lead, too, and outlive this process.
	Pod Scope = "pod"
	// Process: no program that this process starts does. A handover waits for nothing when this process is killed.
	Process Scope = "process"
)

// LeadOptions may be left empty.
type LeadOptions struct {
	// Scope is Pod if it is empty.
	Scope Scope
	// Margin is how long before the end of what is promised the lead is over: the longest that a step takes. A tenth of
	// what is promised at once, and at least 20 ms, if it is zero.
	Margin time.Duration
}

// Lead is the time for which this replica leads a role.
type Lead struct {
	claim *claim
}

// Token is the fencing token. Ask for it each time that something is written with it: that is the check. The error is
// ErrLost when the lead is over.
func (l *Lead) Token() (uint64, error) {
	return l.claim.token()
}

// Left is how long the lead lasts if no more is promised; zero when it is over.
func (l *Lead) Left() time.Duration {
	return l.claim.left()
}

// Leading waits until this replica leads the role, and calls work, whose context is cancelled when the lead is over.
// When work has returned, the sidecar is told that it has stopped. If the lead was over by then, it waits for the
// next one and calls work again, unless work has failed for another reason than that.
//
// It returns what work returned while it led, or the cause of ctx when that is over, or a [*Refused] when the sidecar
// does not know the role or does not let this app in. A sidecar that is not there is waited for.
func (c *Client) Leading(
	ctx context.Context, role string, options LeadOptions, work func(ctx context.Context, lead *Lead) error,
) error {
	scope := firstOf(string(options.Scope), string(Pod))
	if scope != string(Pod) && scope != string(Process) {
		return fmt.Errorf("scope %q: pod or process is wanted", scope)
	}
	from := &roleSource{c, "/leader/" + url.PathEscape(role), scope}
	for {
		claim, err := c.claim(ctx, from, options.Margin)
		if err != nil {
			return err
		}
		isOver, err := claim.run(func(ctx context.Context) error { return work(ctx, &Lead{claim}) })
		switch {
		case !isOver:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, context.Canceled):
			return err
		}
	}
}

// run reports whether the claim was over when the work had returned, or panicked.
func (c *claim) run(work func(context.Context) error) (isOver bool, err error) {
	defer func() {
		isOver = c.left() == 0
		c.leave()
	}()
	return false, work(c.ctx)
}

// A role is what /leader/{role} is asked about.
type roleSource struct {
	client *Client
	path   string
	scope  string
}

type answer struct {
	Leader     *bool   `json:"leader"`
	Token      *uint64 `json:"token"`
	ValidForMs *int64  `json:"valid_for_ms"`
	Reason     string  `json:"reason"`
	Hold       string  `json:"hold"`
}

func (a *answer) lost(token uint64) string {
	switch {
	case !*a.Leader && a.Reason != "":
		return a.Reason
	case !*a.Leader:
		return "this replica does not lead"
	case a.Token == nil || *a.Token != token:
		return "another term has begun"
	}
	return ""
}

func (r *roleSource) open(ctx context.Context) (*opened, error) {
	path := fmt.Sprintf("%s/hold?wait=%dms&scope=%s", r.path, leadWait.Milliseconds(), r.scope)
	for pause := time.Duration(0); ; pause = within(pauseMin, 2*pause, time.Second) {
		if err := rest(ctx, pause); err != nil {
			return nil, err
		}
		askedAt := time.Now()
		var first answer
		granted, err := r.client.open(ctx, path, leadWait, &first)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				granted.close()
			}
			return nil, context.Cause(ctx)
		case err != nil && isFinal(err):
			return nil, err
		case err != nil:
			if time.Since(askedAt) >= leadWait {
				pause = 0
			}
		case first.Leader != nil && *first.Leader && first.Token != nil && first.ValidForMs != nil && first.Hold != "":
			granted.name, granted.token = first.Hold, *first.Token
			granted.validity = time.Duration(*first.ValidForMs) * time.Millisecond
			return granted, nil
		default:
			granted.close()
		}
	}
}

func (r *roleSource) lostBy(text []byte, claim *opened) string {
	var line answer
	if json.Unmarshal(text, &line) != nil || line.Leader == nil {
		return "the connection to the sidecar says what nobody understands"
	}
	return line.lost(claim.token)
}

func (r *roleSource) ask(
	ctx context.Context, line *line, claim *opened, timeout time.Duration,
) (time.Duration, string) {
	var told answer
	path := r.path + "?hold=" + url.QueryEscape(claim.name)
	response, err := line.ask(ctx, http.MethodGet, path, timeout, &told)
	switch {
	case response != nil && response.StatusCode == http.StatusGone:
		return 0, "the sidecar knows nothing of its connection"
	case err != nil || response.StatusCode != http.StatusOK || told.Leader == nil:
		return 0, ""
	}
	if reason := told.lost(claim.token); reason != "" {
		return 0, reason
	}
	if told.ValidForMs == nil {
		return 0, ""
	}
	return time.Duration(*told.ValidForMs) * time.Millisecond, ""
}

func (r *roleSource) leave(ctx context.Context, line *line, claim *opened) {
	// Whether it was heard changes nothing here.
	_, _ = line.ask(ctx, http.MethodPost, r.path+"/drained?hold="+url.QueryEscape(claim.name), leaveTimeout, nil)
}
