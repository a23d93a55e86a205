interface Remote {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
}

/** Returns `Call.peer`: `host:port`, with brackets for IPv6, or `unix`. */
export function peerName({ remoteAddress, remotePort }: Remote): string {
  if (!remoteAddress) return 'unix'
  return `${remoteAddress.includes(':') ? `[${remoteAddress}]` : remoteAddress}:${remotePort}`
}
