package baton_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	baton "example.com/baton-sidecar-go"
	"example.com/baton-sidecar-go/internal/devtest"
)

var noOptions = baton.LeadOptions{}

func TestALeadHasATokenAndIsOverWhenItsWorkHasReturned(t *testing.T) {
	dev := start(t)
	first := dev.Leader()
	var kept *baton.Lead
	var token uint64
	client := dev.client(first)
	err := client.Leading(t.Context(), "scheduler", noOptions, func(ctx context.Context, lead *baton.Lead) error {
		kept = lead
		var err error
		token, err = lead.Token()
		if left := lead.Left(); left <= 0 || left > 2*time.Second {
			t.Errorf("left: %v", left)
		}
		return errors.Join(err, ctx.Err())
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Token(); !errors.Is(err, baton.ErrLost) || kept.Left() != 0 {
		t.Errorf("%v, %v left", err, kept.Left())
	}
	// It has said that it has stopped: the other need not wait for anything.
	ended := time.Now()
	process := baton.LeadOptions{Scope: baton.Process}
	err = dev.client(1-first).Leading(t.Context(), "scheduler", process, func(_ context.Context, lead *baton.Lead) error {
		if later, err := lead.Token(); err != nil || later <= token || time.Since(ended) > 1500*time.Millisecond {
			t.Errorf("token %d after %d, %v later: %v", later, token, time.Since(ended), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWorkIsCancelledWhenTheLeadIsLostAndBeginsAgainWithTheNext(t *testing.T) {
	dev := start(t)
	first := dev.Leader()
	var tokens []uint64
	client := dev.client(first)
	err := client.Leading(t.Context(), "scheduler", noOptions, func(ctx context.Context, lead *baton.Lead) error {
		token, err := lead.Token()
		tokens = append(tokens, token)
		if len(tokens) == 2 {
			return err
		}
		dev.Call(first, "POST", "/leader/scheduler/resign", map[string]string{"cooldown": "1s"}, nil)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, baton.ErrLost) {
			t.Errorf("cause: %v", cause)
		}
		go func() {
			dev.AnotherLeads(first)
			dev.Resign(1-first, "1m")
		}()
		return ctx.Err()
	})
	if err != nil || len(tokens) != 2 || tokens[1] <= tokens[0] {
		t.Errorf("tokens %v: %v", tokens, err)
	}
}

func TestAnErrorOfTheWorkIsReturned(t *testing.T) {
	dev := start(t)
	first := dev.Leader()
	broken := errors.New("no disk")
	err := dev.client(first).Leading(t.Context(), "scheduler", noOptions, func(context.Context, *baton.Lead) error {
		return broken
	})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	dev.AnotherLeads(first)
}

// The end of the connection would say that the work has stopped.
func TestWhoIsToStopKeepsTheLeadUntilTheWorkHasReturned(t *testing.T) {
	dev := start(t)
	first := dev.Leader()
	ctx, cancel := context.WithCancel(t.Context())
	process := baton.LeadOptions{Scope: baton.Process}
	err := dev.client(first).Leading(ctx, "scheduler", process, func(work context.Context, lead *baton.Lead) error {
		cancel()
		<-work.Done()
		devtest.HoldsFor(t, 500*time.Millisecond, "nobody else leads while it works", func() bool {
			return dev.Leads() != 1-first
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	dev.AnotherLeads(first)
}

func TestAPanicGivesTheLeadBack(t *testing.T) {
	dev := start(t)
	first := dev.Leader()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it panics")
			}
		}()
		_ = dev.client(first).Leading(t.Context(), "scheduler", noOptions, func(context.Context, *baton.Lead) error {
			panic("a bug")
		})
	}()
	dev.AnotherLeads(first)
}

func TestWhoWaitsForALeadMayStop(t *testing.T) {
	dev := start(t)
	first := dev.Leader()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := dev.client(1-first).Leading(ctx, "scheduler", noOptions, func(context.Context, *baton.Lead) error {
		t.Error("the other leads")
		return nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestWhoMayNotOrAsksForNonsenseIsTold(t *testing.T) {
	dev := start(t)
	never := func(context.Context, *baton.Lead) error {
		t.Error("it leads")
		return nil
	}
	err := dev.client(0).Leading(t.Context(), "nobody", noOptions, never)
	var refused *baton.Refused
	if !errors.As(err, &refused) || refused.Status != 404 || refused.Type != "unknown-role" {
		t.Error(err)
	}
	err = dev.client(0).Leading(t.Context(), "scheduler", baton.LeadOptions{Scope: "thread"}, never)
	devtest.WantError(t, err, "scope")
	err = dev.client(0).Leading(t.Context(), "scheduler", baton.LeadOptions{Margin: -1}, never)
	devtest.WantError(t, err, "margin")
	keyless, err := baton.New(baton.Options{URL: dev.URL(0), TokenFile: t.TempDir() + "/none"})
	if err != nil {
		t.Fatal(err)
	}
	devtest.WantError(t, keyless.Leading(t.Context(), "scheduler", noOptions, never), "token cannot be read")
	_, err = baton.New(baton.Options{URL: "https://127.0.0.1:4040/leader"})
	devtest.WantError(t, err, "address")
}

func TestASidecarThatIsNotThereYetIsWaitedFor(t *testing.T) {
	port := devtest.FreePort(t)
	led := make(chan error, 1)
	waiting := make(chan struct{})
	go func() {
		close(waiting)
		led <- client(t, "http://127.0.0.1:"+strconv.Itoa(port)).Leading(t.Context(), "scheduler", noOptions,
			func(context.Context, *baton.Lead) error { return nil })
	}()
	<-waiting
	dev := devtest.Start(t, port, lease)
	if dev.Leader() == 1 {
		dev.Resign(1, "1m")
	}
	select {
	case err := <-led:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(devtest.Patience):
		t.Error("it never leads")
	}
}
