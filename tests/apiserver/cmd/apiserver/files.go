package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// files are the paths of what the API server and its users need. All of it is of this data folder only: a new folder
// is a new cluster with a new authority.
type files struct {
	caCert, serverCert, serverKey, adminCert, adminKey, accountsKey, kubeconfig string
}

// ensureFiles makes what is not there yet, and the kubeconfig of the administrator for this URL.
func ensureFiles(folder, url string) (files, error) {
	in := func(name string) string { return filepath.Join(folder, name) }
	found := files{
		caCert: in("ca.crt"), serverCert: in("server.crt"), serverKey: in("server.key"), adminCert: in("admin.crt"),
		adminKey: in("admin.key"), accountsKey: in("accounts.key"), kubeconfig: in("kubeconfig"),
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return files{}, err
	}
	if _, err := os.Stat(found.accountsKey); os.IsNotExist(err) {
		if err := makeKeys(found); err != nil {
			return files{}, err
		}
	}
	return found, writeKubeconfig(found, url)
}

// makeKeys makes an authority, a certificate for the server and one for the administrator, and the key that signs the
// tokens of ServiceAccounts, which comes last: where it is, the others are.
func makeKeys(to files) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := certificate("tests", nil)
	ca.IsCA, ca.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	if err := writeCertificate(to.caCert, ca, ca, caKey, caKey); err != nil {
		return err
	}
	server := certificate("kube-apiserver", nil)
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames, server.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	// The group that may do everything.
	admin := certificate("admin", []string{"system:masters"})
	admin.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for _, pair := range []struct {
		template  *x509.Certificate
		cert, key string
	}{{server, to.serverCert, to.serverKey}, {admin, to.adminCert, to.adminKey}} {
		key, err := writeKey(pair.key)
		if err != nil {
			return err
		}
		if err := writeCertificate(pair.cert, pair.template, ca, key, caKey); err != nil {
			return err
		}
	}
	_, err = writeKey(to.accountsKey)
	return err
}

func certificate(name string, groups []string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name, Organization: groups},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
}

func writeKey(path string) (*ecdsa.PrivateKey, error) {
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

func writeCertificate(path string, template, parent *x509.Certificate, key crypto.Signer, signer crypto.Signer) error {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	return writePEM(path, "CERTIFICATE", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func writeKubeconfig(of files, url string) error {
	const name = "tests"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthority: of.caCert}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: of.adminCert, ClientKey: of.adminKey}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, of.kubeconfig)
}
