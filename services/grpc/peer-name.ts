interface Remote {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
}

/** The other side of a socket as `Call.peer` names it: `host:port`, with brackets for IPv6, or `unix`. */
export function peerName({ remoteAddress, remotePort }: Remote): string {
  if (!remoteAddress) return 'unix'
  return `${remoteAddress.includes(':') ? `[${remoteAddress}]` : remoteAddress}:${remotePort}`
}
