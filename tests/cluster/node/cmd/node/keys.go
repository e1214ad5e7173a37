package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// makeKeys makes an authority, the certificates of all programs, and a kubeconfig for each of those that need one.
func makeKeys(arguments []string) error {
	flags := flag.NewFlagSet("keys", flag.ExitOnError)
	folder := flags.String("dir", "keys", "where they go")
	server := flags.String("server", "https://10.99.0.1:6443", "the API server's URL")
	address := flags.String("address", "10.99.0.1", "its address")
	service := flags.String("service", "10.96.0.1", "the address of the Service `kubernetes`")
	node := flags.String("node", "node", "the name of the node")
	_ = flags.Parse(arguments)
	if err := os.MkdirAll(*folder, 0o700); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(*folder, name) }
	caKey, err := key(in("ca.key"))
	if err != nil {
		return err
	}
	ca := template("ca", nil)
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	if err := sign(in("ca.crt"), ca, ca, caKey, caKey); err != nil {
		return err
	}
	api := template("kube-apiserver", nil)
	api.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	api.DNSNames = []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	api.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(*address), net.ParseIP(*service)}
	kubeletServer := template(*node, nil)
	kubeletServer.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	kubeletServer.DNSNames, kubeletServer.IPAddresses = []string{*node}, []net.IP{net.ParseIP(*address)}
	leaves := map[string]*x509.Certificate{"apiserver": api, "kubelet-server": kubeletServer}
	users := map[string][]string{
		"admin": {"system:masters"}, "system:kube-controller-manager": nil, "system:kube-scheduler": nil,
		"system:kube-proxy": nil, "system:node:" + *node: {"system:nodes"}, "apiserver-kubelet-client": {"system:masters"},
	}
	files := map[string]string{
		"admin": "admin", "system:kube-controller-manager": "controllers", "system:kube-scheduler": "scheduler",
		"system:kube-proxy": "proxy", "system:node:" + *node: "kubelet", "apiserver-kubelet-client": "kubelet-client",
	}
	for user, groups := range users {
		leaf := template(user, groups)
		leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		leaves[files[user]] = leaf
	}
	for name, leaf := range leaves {
		own, err := key(in(name + ".key"))
		if err != nil {
			return err
		}
		if err := sign(in(name+".crt"), leaf, ca, own, caKey); err != nil {
			return err
		}
	}
	for _, name := range files {
		config := clientcmdapi.NewConfig()
		config.Clusters["node"] = &clientcmdapi.Cluster{Server: *server, CertificateAuthority: in("ca.crt")}
		config.AuthInfos["node"] = &clientcmdapi.AuthInfo{ClientCertificate: in(name + ".crt"), ClientKey: in(name + ".key")}
		config.Contexts["node"] = &clientcmdapi.Context{Cluster: "node", AuthInfo: "node", Namespace: "default"}
		config.CurrentContext = "node"
		if err := clientcmd.WriteToFile(*config, in(name+".kubeconfig")); err != nil {
			return err
		}
	}
	_, err = key(in("accounts.key"))
	return err
}

func template(name string, groups []string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name, Organization: groups},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
}

func key(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func sign(path string, leaf, parent *x509.Certificate, key crypto.Signer, signer crypto.Signer) error {
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	return writePEM(path, "CERTIFICATE", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
