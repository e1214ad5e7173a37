package baton

import (
	"errors"
	"fmt"
	"strings"
)

// ErrLost says that a lead or a lock is over: nothing may be done in its name any more. It is the cause of the
// context's cancellation, too (context.Cause).
var ErrLost = errors.New("the lead or lock is over")

// ErrUnreachable says that there is no sidecar at the address, or that it did not answer in time.
var ErrUnreachable = errors.New("the sidecar does not answer")

// Refused is how the sidecar refuses a request.
type Refused struct {
	// Status is that of HTTP.
	Status int
	// Type says what it is, for programs: "unknown-role".
	Type string
	// Detail says what it is, for people.
	Detail string
	// Holder is who has the lock that was asked for, as far as that is known.
	Holder *Holder
}

// Holder is who has a lock.
type Holder struct {
	Owner    string `json:"owner"`
	Identity string `json:"identity"`
	Token    uint64 `json:"token"`
	// EndsInMs is when its lease ends if it is not renewed, in milliseconds.
	EndsInMs int64 `json:"ends_in_ms"`
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the sidecar refuses: %d %s: %s", r.Status, r.Type, r.Detail)
}

// IsHeld reports whether an error says that another has the lock.
func IsHeld(err error) bool {
	var refused *Refused
	return errors.As(err, &refused) && refused.Type == "lock-held"
}

type problem struct {
	Type   string  `json:"type"`
	Detail string  `json:"detail"`
	Holder *Holder `json:"holder"`
}

func (p problem) refused(status int) *Refused {
	return &Refused{status, strings.TrimPrefix(p.Type, "urn:baton:problem:"), p.Detail, p.Holder}
}
