// A simple relay of animation streams on grpc-go, with which the broker is compared: a goroutine for each call, and a
// bounded channel for each consumer. The producer waits for the slowest consumer. The relay has no rules, late joiners,
// limits or statistics.
//
// Usage: go-relay PORT
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
)

const service = "neutral_ace.services.animation_data.v1.AnimationDataService"

// The number of messages that wait for a consumer.
const channelSize = 64

// The numbers of the fields on the way to the id of the stream.
const (
	headerOfStream = 1
	idsOfHeader    = 1
	streamIDOfIDs  = 2
)

// rawCodec passes on the bytes of messages.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

func (rawCodec) Name() string { return "proto" }

type consumer struct {
	messages chan []byte
	gone     <-chan struct{}
}

// consumers has the consumers of one stream.
type consumers struct {
	mu  sync.RWMutex
	all map[*consumer]struct{}
}

func (c *consumers) send(message []byte) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for one := range c.all {
		select {
		case one.messages <- message:
		case <-one.gone:
		}
	}
}

func (c *consumers) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.all {
		close(one.messages)
		delete(c.all, one)
	}
}

func (c *consumers) add(one *consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[one] = struct{}{}
}

func (c *consumers) remove(one *consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, one)
}

type relay struct {
	mu      sync.Mutex
	streams map[string]*consumers
}

func (r *relay) consumersOf(stream string) *consumers {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.streams[stream]
	if !ok {
		found = &consumers{all: map[*consumer]struct{}{}}
		r.streams[stream] = found
	}
	return found
}

func (r *relay) push(_ any, call grpc.ServerStream) error {
	var to *consumers
	for {
		var message []byte
		if err := call.RecvMsg(&message); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if to == nil {
			to = r.consumersOf(string(field(field(field(message, headerOfStream), idsOfHeader), streamIDOfIDs)))
		}
		to.send(message)
	}
	if to != nil {
		to.end()
	}
	return call.SendMsg(&[]byte{})
}

func (r *relay) pull(_ any, call grpc.ServerStream) error {
	var ids []byte
	if err := call.RecvMsg(&ids); err != nil {
		return err
	}
	from := r.consumersOf(string(field(ids, streamIDOfIDs)))
	one := &consumer{messages: make(chan []byte, channelSize), gone: call.Context().Done()}
	from.add(one)
	defer from.remove(one)
	for {
		select {
		case message, ok := <-one.messages:
			if !ok {
				return nil
			}
			if err := call.SendMsg(&message); err != nil {
				return err
			}
		case <-one.gone:
			return call.Context().Err()
		}
	}
}

// field returns the bytes of a field with this number, nil if there is none.
func field(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		found, kind, head := protowire.ConsumeTag(message)
		if head < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(found, kind, message[head:])
		if size < 0 {
			return nil
		}
		if found == number && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[head:])
			return value
		}
		message = message[head+size:]
	}
	return nil
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	r := &relay{streams: map[string]*consumers{}}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "PushAnimationDataStream", Handler: r.push, ClientStreams: true},
			{StreamName: "PullAnimationDataStream", Handler: r.pull, ServerStreams: true},
		},
	}, r)
	fmt.Println("serving")
	log.Fatal(server.Serve(listener))
}
