package baton_test

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

	baton "example.com/baton-sidecar-go"
)

const patience = 30 * time.Second

// until waits for a state.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for ends := time.Now().Add(patience); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(ends) {
			t.Fatalf("waited too long: %s", what)
		}
	}
}

// A dev is a real `baton dev` of two replicas; BATON_BIN names the program.
type dev struct {
	t    *testing.T
	urls [2]string
}

func start(t *testing.T) *dev {
	t.Helper()
	dev := startAt(t, freePort(t))
	dev.leader()
	return dev
}

func startAt(t *testing.T, port int) *dev {
	t.Helper()
	program := os.Getenv("BATON_BIN")
	if program == "" {
		t.Fatal("BATON_BIN names no program: the tests need a baton")
	}
	process := exec.Command(program, "dev", "--replicas", "2", "--port", fmt.Sprint(port), "--lease", "2s")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Process.Kill(); err != nil {
			t.Error(err)
		}
		// Its end by a signal is an error of its own.
		_ = process.Wait()
	})
	return &dev{t, [2]string{fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", port+1)}}
}

// freePort is the first of two that are free together with those of their telemetry.
func freePort(t *testing.T) int {
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

// call returns false when there is no answer.
func (d *dev) call(replica int, method, path string, body, into any) bool {
	text, err := json.Marshal(body)
	if err != nil {
		d.t.Fatal(err)
	}
	request, err := http.NewRequest(method, d.urls[replica]+path, bytes.NewReader(text))
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return into == nil || json.NewDecoder(response.Body).Decode(into) == nil
}

// leads is the number of the replica that leads; none: -1. It is promised nothing.
func (d *dev) leads() int {
	for replica := range d.urls {
		var status struct {
			Roles []struct{ Leads bool }
		}
		if d.call(replica, http.MethodGet, "/status", nil, &status) && status.Roles[0].Leads {
			return replica
		}
	}
	return -1
}

func (d *dev) leader() int {
	d.t.Helper()
	leader := -1
	until(d.t, "a leader", func() bool {
		leader = d.leads()
		return leader >= 0
	})
	return leader
}

func (d *dev) anotherLeads(first int) {
	d.t.Helper()
	until(d.t, "another leads", func() bool { return d.leads() == 1-first })
}

func (d *dev) resign(replica int) {
	if !d.call(replica, http.MethodPost, "/leader/scheduler/resign", map[string]string{"cooldown": "1m"}, nil) {
		d.t.Error("nobody hears")
	}
}

func (d *dev) client(replica int) *baton.Client {
	return client(d.t, d.urls[replica])
}

func client(t *testing.T, url string) *baton.Client {
	t.Helper()
	client, err := baton.New(baton.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%v: %q is wanted", err, part)
	}
}
