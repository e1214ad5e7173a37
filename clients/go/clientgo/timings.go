package clientgo

import (
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// Timings are those of the elector. After it was told that it leads, it takes itself for the leader for RetryPeriod and
// then RenewDeadline if it is not told so again; LeaseDuration is longer than both. All zero: [DefaultTimings].
type Timings struct {
	// LeaseDuration is how long the lead has to last yet whenever the elector is told that it leads.
	LeaseDuration time.Duration
	// RenewDeadline is for how long the elector tries to hear once more that it leads, before it gives up.
	RenewDeadline time.Duration
	// RetryPeriod is how long it waits between two tries.
	RetryPeriod time.Duration
}

// DefaultTimings are for promises of 5 s, answerValidity's default with leases of 15 s or more: a lead then lasts
// between 2.8 s and 4.5 s yet. For shorter promises they are to be shorter in proportion.
var DefaultTimings = Timings{
	LeaseDuration: 2700 * time.Millisecond,
	RenewDeadline: 2 * time.Second,
	RetryPeriod:   500 * time.Millisecond,
}

func (t Timings) check() error {
	// What is beyond the pause itself is for an elector that is late.
	pause := time.Duration(leaderelection.JitterFactor * float64(t.RetryPeriod))
	switch {
	case t.RetryPeriod <= 0:
		return fmt.Errorf("RetryPeriod %v: more than zero is wanted", t.RetryPeriod)
	case t.RenewDeadline <= pause:
		return fmt.Errorf("RenewDeadline %v: more than 1.2 times RetryPeriod is wanted, %v", t.RenewDeadline, pause)
	case t.LeaseDuration <= t.RenewDeadline+pause:
		return fmt.Errorf("LeaseDuration %v: more than RenewDeadline and 1.2 times RetryPeriod is wanted, %v",
			t.LeaseDuration, t.RenewDeadline+pause)
	}
	return nil
}

// leaseSeconds is what the elector writes of LeaseDuration into a record.
func (t Timings) leaseSeconds() int {
	return int(t.LeaseDuration / time.Second)
}
