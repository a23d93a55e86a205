/**
 * Returns the settings with which each service follows the operator's feed. The waits are shorter than the
 * defaults, because the operator is near and changes must apply soon. The services ping the operator, which
 * permits it, so that each of them notices within 6 s that its operator has stopped or disappeared. Until
 * then the readiness probe has removed that operator from the Service of the operators, and the next
 * connection reaches another one.
 *
 * @param feedAddress `host:port`
 */
export function feedClientEnv(feedAddress: string): Readonly<Record<string, string>> {
  return {
    CONFIG_GRPC_XDS_SERVER_URL: feedAddress,
    CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '200ms',
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '200ms',
    XDS_CLIENT_BACKOFF_MAX_INTERVAL: '3s',
    XDS_CLIENT_KEEPALIVE_INTERVAL: '2s',
    XDS_CLIENT_KEEPALIVE_TIMEOUT: '4s',
    XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: `${64 * 1024 * 1024}`,
  }
}
