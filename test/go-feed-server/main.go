// A management server on grpc-go and go-control-plane for the tests of the feed's client.
//
// Each line of standard input is a snapshot: {"version": "1", "configs": [...]}, where a config is a
// ratelimit.config.ratelimit.v3.RateLimitConfig in JSON. Each line of standard output is an event: see `event`.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"log"
	"net"
	"os"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/encoding/protojson"
)

// What happened, with the time since the start. Event: listening, connected, closed, ping, goaway, request, response.
type event struct {
	Event   string `json:"event"`
	AtMs    int64  `json:"atMs"`
	Address string `json:"address,omitempty"` // listening
	Text    string `json:"text,omitempty"`    // goaway: the debug data; request: the error of a NACK
	Version string `json:"version,omitempty"` // request, response
}

var (
	startTime = time.Now()
	outputMu  sync.Mutex
	output    = json.NewEncoder(os.Stdout)
)

func report(happened event) {
	outputMu.Lock()
	defer outputMu.Unlock()
	happened.AtMs = time.Since(startTime).Milliseconds()
	output.Encode(happened)
}

// Every client gets the same snapshot.
type oneSnapshot struct{}

func (oneSnapshot) ID(*core.Node) string { return "everybody" }

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	enforce := flag.Bool("enforce", false, "replace grpc-go's default enforcement policy by the two flags below")
	minTime := flag.Duration("min-time", 5*time.Minute, "the shortest interval of pings that is permitted")
	permitIdle := flag.Bool("permit-without-stream", false, "permit pings on connections without a stream")
	identity := flag.String("tls", "", "PEM file of the certificate and its key; it is also the authority of clients")
	flag.Parse()

	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	snapshots := cache.NewSnapshotCache(true, oneSnapshot{}, nil)
	var options []grpc.ServerOption
	if *enforce {
		policy := keepalive.EnforcementPolicy{MinTime: *minTime, PermitWithoutStream: *permitIdle}
		options = append(options, grpc.KeepaliveEnforcementPolicy(policy))
	}
	if *identity != "" {
		options = append(options, mutualTLS(*identity))
	}
	grpcServer := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(
		grpcServer, server.NewServer(context.Background(), snapshots, callbacks()))
	report(event{Event: "listening", Address: listener.Addr().String()})
	go readSnapshots(snapshots)
	log.Fatal(grpcServer.Serve(watchedListener{listener}))
}

// Requires a certificate of each client, as the server of Envoy Gateway does.
func mutualTLS(file string) grpc.ServerOption {
	certificate, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		log.Fatal(err)
	}
	authority, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority)
	return grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS13,
	}))
}

func callbacks() server.Callbacks {
	return server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, request *discovery.DiscoveryRequest) error {
			report(event{Event: "request", Version: request.GetVersionInfo(), Text: request.GetErrorDetail().GetMessage()})
			return nil
		},
		StreamResponseFunc: func(
			_ context.Context, _ int64, _ *discovery.DiscoveryRequest, response *discovery.DiscoveryResponse,
		) {
			report(event{Event: "response", Version: response.GetVersionInfo()})
		},
	}
}

// Ends the process with its input, so that none outlives the test that started it.
func readSnapshots(snapshots cache.SnapshotCache) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var line struct {
			Version string
			Configs []json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			log.Fatal(err)
		}
		var configs []types.Resource
		for _, text := range line.Configs {
			config := &ratelimit.RateLimitConfig{}
			if err := protojson.Unmarshal(text, config); err != nil {
				log.Fatal(err)
			}
			configs = append(configs, config)
		}
		content := map[resource.Type][]types.Resource{resource.RateLimitConfigType: configs}
		snapshot, err := cache.NewSnapshot(line.Version, content)
		if err != nil {
			log.Fatal(err)
		}
		if err := snapshots.SetSnapshot(context.Background(), "everybody", snapshot); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(0)
}
