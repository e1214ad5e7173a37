// Command apiserver runs kube-apiserver and its etcd in one process, on loopback, for as long as its standard input is
// open: so no test can leave one behind. When it serves it prints one line of JSON about itself.
//
// Nothing else of a cluster runs: no controller makes ServiceAccounts or ends namespaces, no pod is ever started.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// How long the API server may take until it says that it is ready.
const startMax = 2 * time.Minute

// What the ready line says.
type readyLine struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	CA         string `json:"ca"`
	Version    string `json:"version"`
	PID        int    `json:"pid"`
	StartMS    int64  `json:"start_ms"`
}

func main() {
	dataDir := flag.String("data-dir", "", "where certificates and etcd's data are kept (default: a temporary one)")
	port := flag.Int("port", 0, "the loopback port (default: a free one)")
	verbosity := flag.Int("v", 0, "how much the API server logs to standard error")
	flag.Parse()
	if err := run(*dataDir, *port, *verbosity); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		os.Exit(1)
	}
}

func run(dataDir string, port, verbosity int) error {
	begun := time.Now()
	if dataDir == "" {
		temporary, err := os.MkdirTemp("", "apiserver-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dataDir = temporary
	}
	// Ends on SIGTERM and SIGINT, and when RequestShutdown is called.
	ctx := genericapiserver.SetupSignalContext()
	go func() {
		// Nothing is ever written to it: this returns when the other side has closed it.
		_, _ = io.Copy(io.Discard, os.Stdin)
		genericapiserver.RequestShutdown()
	}()
	listener, err := listen(port)
	if err != nil {
		return err
	}
	files, err := ensureFiles(dataDir, "https://"+listener.Addr().String())
	if err != nil {
		return err
	}
	etcdURL, stopEtcd, err := startEtcd(filepath.Join(dataDir, "etcd"))
	if err != nil {
		return err
	}
	defer stopEtcd()
	completed, err := complete(ctx, listener, etcdURL, files, verbosity)
	if err != nil {
		return err
	}
	go func() {
		if err := announce(ctx, files, begun); err != nil {
			fmt.Fprintln(os.Stderr, "apiserver:", err)
			genericapiserver.RequestShutdown()
		}
	}()
	return app.Run(ctx, completed)
}

// listen takes the port, or a free one: below those that the kernel gives to outgoing connections, so that none of them
// has it when the server is started again on the same port.
func listen(port int) (net.Listener, error) {
	const first, count, tries = 20_000, 12_000, 100
	if port != 0 {
		return net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	}
	var err error
	for range tries {
		var listener net.Listener
		listener, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(count)))
		if err == nil {
			return listener, nil
		}
	}
	return nil, err
}

// complete is what `kube-apiserver` does with its command line, but for the listener, which is ours.
func complete(
	ctx context.Context, listener net.Listener, etcdURL string, files files, verbosity int,
) (options.CompletedOptions, error) {
	none := options.CompletedOptions{}
	server := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
	for _, set := range server.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(arguments(listener, etcdURL, files, verbosity)); err != nil {
		return none, err
	}
	server.SecureServing.Listener = listener
	registry := server.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.Set(); err != nil {
		return none, err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := logsapi.ValidateAndApply(server.Logs, nil); err != nil {
		return none, err
	}
	completed, err := server.Complete(ctx)
	if err != nil {
		return none, err
	}
	return completed, utilerrors.NewAggregate(completed.Validate())
}

func arguments(listener net.Listener, etcdURL string, files files, verbosity int) []string {
	const issuer = "https://kubernetes.default.svc.cluster.local"
	return []string{
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", listener.Addr().(*net.TCPAddr).Port),
		// Loopback is not what others would be told; there are no others, and nobody is told.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + etcdURL,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--anonymous-auth=false",
		"--client-ca-file=" + files.caCert,
		"--tls-cert-file=" + files.serverCert,
		"--tls-private-key-file=" + files.serverKey,
		"--service-account-issuer=" + issuer,
		"--service-account-signing-key-file=" + files.accountsKey,
		"--service-account-key-file=" + files.accountsKey,
		fmt.Sprintf("--v=%d", verbosity),
	}
}

// announce waits until the API server is ready and prints the ready line.
func announce(ctx context.Context, files files, begun time.Time) error {
	config, err := clientcmd.BuildConfigFromFlags("", files.kubeconfig)
	if err != nil {
		return err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	client := http.Client{Transport: transport, Timeout: 5 * time.Second}
	var last string
	isReady := func(context.Context) (bool, error) {
		answer, err := client.Get(config.Host + "/readyz?verbose")
		if err != nil {
			last = err.Error()
			return false, nil
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		last = string(body)
		return err == nil && answer.StatusCode == http.StatusOK, nil
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startMax-time.Since(begun), true, isReady)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("not ready after %v: %s", startMax, last)
	}
	return json.NewEncoder(os.Stdout).Encode(readyLine{
		URL: config.Host, Kubeconfig: files.kubeconfig, CA: files.caCert, Version: version.Get().GitVersion,
		PID: os.Getpid(), StartMS: time.Since(begun).Milliseconds(),
	})
}
