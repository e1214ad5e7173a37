package clientgo

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = 60 * time.Second

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
	t       *testing.T
	program string
	port    int
	process *os.Process
}

// start starts one whose promises last for 3 s.
func start(t *testing.T) *dev {
	t.Helper()
	return startWith(t, "9s")
}

func startWith(t *testing.T, lease string) *dev {
	t.Helper()
	program := os.Getenv("BATON_BIN")
	if program == "" {
		t.Fatal("BATON_BIN names no program: the tests need a baton")
	}
	dev := &dev{t: t, program: program, port: freePort(t)}
	command := exec.Command(program, "dev", "--replicas", "2", "--port", fmt.Sprint(dev.port), "--lease", lease)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	dev.process = command.Process
	t.Cleanup(func() {
		if err := command.Process.Kill(); err != nil {
			t.Error(err)
		}
		// Its end by a signal is an error of its own.
		_ = command.Wait()
	})
	return dev
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

func (d *dev) url(replica int) string {
	return fmt.Sprintf("http://127.0.0.1:%d", d.port+replica)
}

// leads is the number of the replica that leads; none: -1. It is promised nothing.
func (d *dev) leads() int {
	for replica := range 2 {
		response, err := http.Get(d.url(replica) + "/status")
		if err != nil {
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err == nil && strings.Contains(string(body), `"leads":true`) {
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

func (d *dev) resign(replica int, cooldown string) {
	d.t.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"cooldown":%q}`, cooldown))
	response, err := http.Post(d.url(replica)+"/leader/scheduler/resign", "application/json", body)
	if err != nil {
		d.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		d.t.Fatalf("it does not resign: %s", response.Status)
	}
}

// kill kills a sidecar, not its app.
func (d *dev) kill(replica int) {
	d.t.Helper()
	kill := exec.Command(d.program, "dev", "kill", "--port", fmt.Sprint(d.port), fmt.Sprint(replica))
	if told, err := kill.CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, told)
	}
}

// freeze stops both sidecars where they stand.
func (d *dev) freeze() {
	d.t.Helper()
	if err := d.process.Signal(syscall.SIGSTOP); err != nil {
		d.t.Fatal(err)
	}
}

func (d *dev) lock(replica int) *Lock {
	d.t.Helper()
	return newLock(d.t, d.url(replica), short)
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%v: %q is wanted", err, part)
	}
}
