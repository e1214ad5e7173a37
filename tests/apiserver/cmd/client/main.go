// Command client takes part in a leader election as programs built on client-go do: with its own types, its own lock
// and its own elector.
//
//	client read  --kubeconfig F --namespace N --name L
//	client elect --kubeconfig F --namespace N --name L --identity I [timings]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// How long a read may take.
const readMax = 10 * time.Second

type settings struct {
	kubeconfig, namespace, name, identity     string
	leaseDuration, renewDeadline, retryPeriod time.Duration
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: client read|elect [flags]"))
	}
	var with settings
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	flags.StringVar(&with.kubeconfig, "kubeconfig", "", "the kubeconfig")
	flags.StringVar(&with.namespace, "namespace", "default", "the Lease's namespace")
	flags.StringVar(&with.name, "name", "", "the Lease's name")
	flags.StringVar(&with.identity, "identity", "", "the participant's identity")
	flags.DurationVar(&with.leaseDuration, "lease-duration", 15*time.Second, "as client-go means it")
	flags.DurationVar(&with.renewDeadline, "renew-deadline", 10*time.Second, "as client-go means it")
	flags.DurationVar(&with.retryPeriod, "retry-period", 2*time.Second, "as client-go means it")
	klog.InitFlags(flags)
	if err := flags.Parse(os.Args[2:]); err != nil {
		fail(err)
	}
	commands := map[string]func(settings) error{"read": read, "elect": elect}
	command, known := commands[os.Args[1]]
	if !known {
		fail(fmt.Errorf("there is no command %q", os.Args[1]))
	}
	if err := command(with); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "client:", err)
	os.Exit(1)
}

// lock is client-go's view of the Lease.
func lock(with settings) (*resourcelock.LeaseLock, error) {
	config, err := clientcmd.BuildConfigFromFlags("", with.kubeconfig)
	if err != nil {
		return nil, err
	}
	// As controller-runtime sets it: a request that hangs must not outlast the renew deadline.
	config.Timeout = with.renewDeadline / 2
	// The elector paces itself; a second limit in the client would only delay it.
	config.QPS = -1
	// The tests' stand-in for an API server speaks nothing else.
	config.ContentType = "application/json"
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: with.namespace, Name: with.name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: with.identity},
	}, nil
}

// read prints the record that every participant built on client-go compares.
func read(with settings) error {
	lock, err := lock(with)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readMax)
	defer cancel()
	_, record, err := lock.Get(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Println(string(record))
	return err
}
