import type { ChannelCredentials } from '@grpc/grpc-js'

/**
 * The kernel probes a connection after this time without a segment. Node sends the next probes after 1 s
 * each, and the connection fails after 10 probes without an answer: 25 s in all.
 */
const tcpKeepaliveIdleMs = 15_000

/**
 * Enables TCP keepalive on each connection that a channel opens with these credentials. grpc-js has no option
 * for it; its sockets are only accessible in the connector of the credentials.
 */
export function withTcpKeepalive(credentials: ChannelCredentials): ChannelCredentials {
  const createConnector = credentials._createSecureConnector.bind(credentials)
  credentials._createSecureConnector = (...options) => {
    const connector = createConnector(...options)
    const connect = connector.connect.bind(connector)
    connector.connect = socket => connect(socket.setKeepAlive(true, tcpKeepaliveIdleMs))
    return connector
  }
  return credentials
}
