/**
 * How each service follows the operator's feed. The waits are shorter than the defaults: the operator is near, and a
 * change must not lag. The services ping the operator, which permits it, so that each of them notices within 30 s
 * that its operator has disappeared.
 *
 * @param feedAddress `host:port`
 */
export function feedClientEnv(feedAddress: string): Readonly<Record<string, string>> {
  return {
    CONFIG_GRPC_XDS_SERVER_URL: feedAddress,
    CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '200ms',
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '200ms',
    XDS_CLIENT_BACKOFF_MAX_INTERVAL: '3s',
    XDS_CLIENT_KEEPALIVE_INTERVAL: '20s',
    XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: `${64 * 1024 * 1024}`,
  }
}
