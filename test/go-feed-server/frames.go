package main

import (
	"encoding/binary"
	"net"
)

// Reports the PING frames that clients send and the GOAWAY frames that grpc-go answers: it has no hook for them.
type watchedListener struct{ net.Listener }

func (l watchedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	report(event{Event: "connected"})
	return &watchedConn{Conn: conn, received: frameReader{skip: len(clientPreface)}}, nil
}

const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

type watchedConn struct {
	net.Conn
	received, sent frameReader
	closed         bool
}

func (c *watchedConn) Read(buffer []byte) (int, error) {
	count, err := c.Conn.Read(buffer)
	c.received.read(buffer[:count], func(kind, flags byte, _ []byte) {
		if kind == framePing && flags&flagAck == 0 {
			report(event{Event: "ping"})
		}
	})
	return count, err
}

func (c *watchedConn) Write(bytes []byte) (int, error) {
	c.sent.read(bytes, func(kind, _ byte, payload []byte) {
		if kind == frameGoaway && len(payload) >= 8 {
			report(event{Event: "goaway", Text: string(payload[8:])})
		}
	})
	return c.Conn.Write(bytes)
}

func (c *watchedConn) Close() error {
	if !c.closed {
		report(event{Event: "closed"})
	}
	c.closed = true
	return c.Conn.Close()
}

const (
	frameHeaderBytes = 9
	framePing        = 6
	frameGoaway      = 7
	flagAck          = 1
	maxKeptBytes     = 1024
)

// Splits the received bytes into frames (RFC 9113, section 4.1). Keeps the payload of short frames only.
type frameReader struct {
	skip int
	kept []byte
}

func (r *frameReader) read(bytes []byte, onFrame func(kind, flags byte, payload []byte)) {
	for len(bytes) > 0 {
		if r.skip > 0 {
			count := min(r.skip, len(bytes))
			r.skip -= count
			bytes = bytes[count:]
			continue
		}
		r.kept = append(r.kept, bytes[0])
		bytes = bytes[1:]
		if len(r.kept) < frameHeaderBytes {
			continue
		}
		length := int(binary.BigEndian.Uint32(append([]byte{0}, r.kept[:3]...)))
		if length > maxKeptBytes {
			onFrame(r.kept[3], r.kept[4], nil)
			r.skip, r.kept = length, nil
		} else if len(r.kept) == frameHeaderBytes+length {
			onFrame(r.kept[3], r.kept[4], r.kept[frameHeaderBytes:])
			r.kept = nil
		}
	}
}
