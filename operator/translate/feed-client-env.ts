/**
 * How each of our services follows the feed, whatever it takes from there. They wait less than their own defaults
 * say: the operator is near, and what somebody changed must not lag.
 *
 * @param feedAddress `host:port`
 */
export function feedClientEnv(feedAddress: string): Readonly<Record<string, string>> {
  return {
    CONFIG_GRPC_XDS_SERVER_URL: feedAddress,
    CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '200ms',
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '200ms',
    XDS_CLIENT_BACKOFF_MAX_INTERVAL: '3s',
    XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: `${64 * 1024 * 1024}`,
  }
}
