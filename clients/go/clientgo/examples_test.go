package clientgo

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

var acts = regexp.MustCompile(`^acting with token (\d+)$`)

// A process is one of an example.
type process struct {
	t       *testing.T
	command *exec.Cmd
	// Closed when it has ended.
	ended chan struct{}

	mutex sync.Mutex
	// What it has acted with.
	tokens []int
}

// build makes the program of an example.
func build(t *testing.T, example string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), example)
	command := exec.Command("go", "build", "-o", program, ".")
	command.Dir = filepath.Join("examples", example)
	if told, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, told)
	}
	return program
}

// kubeconfig is that of a cluster which does not exist: a manager wants one, and these ask it nothing.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"current-context": "none", "contexts": [{"name": "none", "context": {"cluster": "none"}}],
		"clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (d dev) runs(program string, replica int) *process {
	d.Test.Helper()
	p := &process{t: d.Test, command: exec.Command(program), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), "BATON_URL="+d.URL(replica), "KUBECONFIG="+kubeconfig(d.Test))
	output, err := p.command.StdoutPipe()
	if err != nil {
		d.Test.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		d.Test.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if found := acts.FindStringSubmatch(lines.Text()); found != nil {
				token, _ := strconv.Atoi(found[1])
				p.mutex.Lock()
				p.tokens = append(p.tokens, token)
				p.mutex.Unlock()
			}
		}
		// How it ended is not what is asked here.
		_ = p.command.Wait()
	}()
	d.Test.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *process) acted() []int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.tokens
}

func (p *process) signal(signal os.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// twoProcesses of an example, of which the first acts.
func (d dev) twoProcesses(program string) (first int, leader, follower *process) {
	d.Test.Helper()
	first = d.Leader()
	leader, follower = d.runs(program, first), d.runs(program, 1-first)
	until(d.Test, "one acts", func() bool { return len(leader.acted()) > 0 })
	if len(follower.acted()) > 0 {
		d.Test.Fatal("both act")
	}
	return first, leader, follower
}

func wantGreater(t *testing.T, earlier, later *process) {
	t.Helper()
	until(t, "the other acts", func() bool { return len(later.acted()) > 0 })
	if first, second := earlier.acted()[0], later.acted()[0]; second <= first {
		t.Errorf("token %d after %d", second, first)
	}
}

func TestTheExamples(t *testing.T) {
	for _, example := range []string{"controller", "manager"} {
		program := build(t, example)
		t.Run(fmt.Sprint("of a killed ", example, " the other takes over"), func(t *testing.T) {
			dev := startWith(t, "15s")
			_, leader, follower := dev.twoProcesses(program)
			leader.signal(syscall.SIGKILL)
			wantGreater(t, leader, follower)
		})
		t.Run(fmt.Sprint("a ", example, " that stood still acts no more, and ends"), func(t *testing.T) {
			dev := startWith(t, "15s")
			first, leader, follower := dev.twoProcesses(program)
			leader.signal(syscall.SIGSTOP)
			dev.Resign(first, "1m")
			wantGreater(t, leader, follower)
			before := len(leader.acted())
			leader.signal(syscall.SIGCONT)
			until(t, "it ends", func() bool {
				select {
				case <-leader.ended:
					return true
				default:
					return false
				}
			})
			if after := leader.acted(); len(after) > before {
				t.Errorf("it has acted with %v", after[before:])
			}
		})
		t.Run(fmt.Sprint("a ", example, " that is told to end hands over"), func(t *testing.T) {
			dev := startWith(t, "15s")
			_, leader, follower := dev.twoProcesses(program)
			leader.signal(syscall.SIGTERM)
			<-leader.ended
			if !leader.command.ProcessState.Success() {
				t.Error(leader.command.ProcessState)
			}
			wantGreater(t, leader, follower)
		})
	}
}
