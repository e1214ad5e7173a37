package clientgo

import (
	"syscall"
	"testing"

	"example.com/baton-sidecar-go/internal/devtest"
)

var (
	until     = devtest.Until
	wantError = devtest.WantError
)

// A dev is a real `baton dev`, and locks of its replicas.
type dev struct{ *devtest.Dev }

// start starts one whose promises last for 3 s.
func start(t *testing.T) dev {
	t.Helper()
	return startWith(t, "9s")
}

func startWith(t *testing.T, lease string) dev {
	t.Helper()
	return dev{devtest.Start(t, devtest.FreePort(t), lease)}
}

// freeze stops both sidecars where they stand.
func (d dev) freeze() {
	d.Test.Helper()
	if err := d.Process.Signal(syscall.SIGSTOP); err != nil {
		d.Test.Fatal(err)
	}
}

func (d dev) lock(replica int) *Lock {
	d.Test.Helper()
	return newLock(d.Test, d.URL(replica), short)
}
