package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const zone = ".svc.cluster.local."

// runDNS answers A queries of Services, with a cluster address or (headless) with those of their ready endpoints.
// What is not in the cluster's zone does not exist: there is no other network.
func runDNS(arguments []string) error {
	flags := flag.NewFlagSet("dns", flag.ExitOnError)
	listen := flags.String("listen", "10.99.0.1:53", "where it listens")
	kubeconfig := flags.String("kubeconfig", "", "how it reaches the API server")
	_ = flags.Parse(arguments)
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(clients, 10*time.Minute)
	services := factory.Core().V1().Services().Informer()
	slices := factory.Discovery().V1().EndpointSlices().Informer()
	if err := slices.AddIndexers(cache.Indexers{"service": func(object any) ([]string, error) {
		slice := object.(*discoveryv1.EndpointSlice)
		return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
	}}); err != nil {
		return err
	}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	look := func(name string) ([]net.IP, bool) {
		rest, inside := strings.CutSuffix(strings.ToLower(name), zone)
		parts := strings.Split(rest, ".")
		if !inside || len(parts) < 2 {
			return nil, false
		}
		host, key := "", parts[len(parts)-1]+"/"+parts[len(parts)-2]
		if len(parts) == 3 {
			host = parts[0]
		} else if len(parts) > 3 {
			return nil, false
		}
		found, exists, err := services.GetStore().GetByKey(key)
		if err != nil || !exists {
			return nil, false
		}
		service := found.(*corev1.Service)
		if service.Spec.ClusterIP != corev1.ClusterIPNone {
			return []net.IP{net.ParseIP(service.Spec.ClusterIP)}, host == ""
		}
		var addresses []net.IP
		objects, _ := slices.GetIndexer().ByIndex("service", key)
		for _, object := range objects {
			for _, endpoint := range object.(*discoveryv1.EndpointSlice).Endpoints {
				ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready || service.Spec.PublishNotReadyAddresses
				named := host == "" || (endpoint.Hostname != nil && *endpoint.Hostname == host)
				for _, address := range endpoint.Addresses {
					if ready && named {
						addresses = append(addresses, net.ParseIP(address))
					}
				}
			}
		}
		return addresses, len(addresses) > 0
	}
	socket, err := net.ListenPacket("udp4", *listen)
	if err != nil {
		return err
	}
	buffer := make([]byte, 4096)
	for {
		length, from, err := socket.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return err
		} else if err != nil {
			continue
		}
		reply, err := answer(buffer[:length], look)
		if err != nil {
			fmt.Fprintln(os.Stderr, "dns:", err)
			continue
		}
		_, _ = socket.WriteTo(reply, from)
	}
}

func answer(request []byte, look func(string) ([]net.IP, bool)) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(request)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	addresses, exists := look(question.Name.String())
	code := dnsmessage.RCodeSuccess
	if !exists {
		code = dnsmessage.RCodeNameError
	}
	builder := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired,
		RecursionAvailable: true, RCode: code,
	})
	builder.EnableCompression()
	if err := builder.StartQuestions(); err != nil {
		return nil, err
	}
	if err := builder.Question(question); err != nil {
		return nil, err
	}
	if err := builder.StartAnswers(); err != nil {
		return nil, err
	}
	if question.Type == dnsmessage.TypeA {
		for _, address := range addresses {
			resource := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1}
			if err := builder.AResource(resource, dnsmessage.AResource{A: [4]byte(address.To4())}); err != nil {
				return nil, err
			}
		}
	}
	return builder.Finish()
}
