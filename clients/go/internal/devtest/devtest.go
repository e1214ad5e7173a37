// Package devtest has a real `baton dev` for the tests of the modules here.
package devtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Patience is longer than anything takes that is waited for.
const Patience = 30 * time.Second

// Until waits for a state.
func Until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for ends := time.Now().Add(Patience); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(ends) {
			t.Fatalf("waited too long: %s", what)
		}
	}
}

// HoldsFor looks again and again, for so long, at what must not change.
func HoldsFor(t *testing.T, span time.Duration, what string, holds func() bool) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < span; time.Sleep(10 * time.Millisecond) {
		if !holds() {
			t.Fatalf("within %v no more: %s", span, what)
		}
	}
}

// WantError wants these words in an error.
func WantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%v: %q is wanted", err, part)
	}
}

// A Dev is a real `baton dev` of two replicas.
type Dev struct {
	Test    *testing.T
	Process *os.Process
	program string
	port    int
}

// Start starts one at this port; BATON_BIN names the program.
func Start(t *testing.T, port int, lease string) *Dev {
	t.Helper()
	program := os.Getenv("BATON_BIN")
	if program == "" {
		t.Fatal("BATON_BIN names no program: the tests need a baton")
	}
	command := exec.Command(program, "dev", "--replicas", "2", "--port", fmt.Sprint(port), "--lease", lease)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := command.Process.Kill(); err != nil {
			t.Error(err)
		}
		// Its end by a signal is an error of its own.
		_ = command.Wait()
	})
	return &Dev{Test: t, Process: command.Process, program: program, port: port}
}

// FreePort is the first of two that are free together with those of their telemetry.
func FreePort(t *testing.T) int {
	t.Helper()
	for {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := first.Addr().(*net.TCPAddr).Port
		first.Close()
		free := true
		for _, other := range []int{port, port + 1, port + 100, port + 101} {
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", other))
			if err != nil {
				free = false
				break
			}
			listener.Close()
		}
		if free {
			return port
		}
	}
}

// URL is where an app asks this replica.
func (d *Dev) URL(replica int) string {
	return fmt.Sprintf("http://127.0.0.1:%d", d.port+replica)
}

// Call returns false when there is no answer.
func (d *Dev) Call(replica int, method, path string, body, into any) bool {
	text, err := json.Marshal(body)
	if err != nil {
		d.Test.Fatal(err)
	}
	request, err := http.NewRequest(method, d.URL(replica)+path, bytes.NewReader(text))
	if err != nil {
		d.Test.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return into == nil || json.NewDecoder(response.Body).Decode(into) == nil
}

// Leads is the number of the replica that leads; none: -1. It is promised nothing.
func (d *Dev) Leads() int {
	for replica := range 2 {
		var status struct {
			Roles []struct{ Leads bool }
		}
		if d.Call(replica, http.MethodGet, "/status", nil, &status) && status.Roles[0].Leads {
			return replica
		}
	}
	return -1
}

// Leader waits for one.
func (d *Dev) Leader() int {
	d.Test.Helper()
	leader := -1
	Until(d.Test, "a leader", func() bool {
		leader = d.Leads()
		return leader >= 0
	})
	return leader
}

// AnotherLeads waits until the other replica does.
func (d *Dev) AnotherLeads(first int) {
	d.Test.Helper()
	Until(d.Test, "another leads", func() bool { return d.Leads() == 1-first })
}

// Resign makes a replica that leads hand over, and stay out for so long.
func (d *Dev) Resign(replica int, cooldown string) {
	d.Test.Helper()
	var told struct{ Leader *bool }
	body := map[string]string{"cooldown": cooldown}
	if !d.Call(replica, http.MethodPost, "/leader/scheduler/resign", body, &told) || told.Leader == nil {
		d.Test.Error("it does not resign")
	}
}

// Waits tells whether somebody waits for a lock at this replica.
func (d *Dev) Waits(replica int) bool {
	var told struct {
		Locks []struct {
			Waiting int `json:"waiting_here"`
		}
	}
	d.Call(replica, http.MethodGet, "/locks", nil, &told)
	for _, lock := range told.Locks {
		if lock.Waiting > 0 {
			return true
		}
	}
	return false
}

// Kill kills a sidecar, not its app.
func (d *Dev) Kill(replica int) {
	d.Test.Helper()
	kill := exec.Command(d.program, "dev", "kill", "--port", fmt.Sprint(d.port), fmt.Sprint(replica))
	if told, err := kill.CombinedOutput(); err != nil {
		d.Test.Fatalf("%v: %s", err, told)
	}
}
