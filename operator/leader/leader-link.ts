import type { Log } from '@tollway/chassis/log/log.ts'
import { createGrpcClient, type GrpcClient } from '@tollway/grpc/client/client.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'

/** The connection to the operator with the Lease, for the sessions and queries that it answers. */
export interface LeaderLink {
  /** Changes the address, `host:port`; undefined if this operator has the Lease, or knows no other. */
  setLeader(address: string | undefined): void
  /** Undefined if this operator answers itself. The signal is aborted when the leader changes. */
  current(): { readonly client: GrpcClient; readonly signal: AbortSignal } | undefined
  /** Adds a listener that is called after each change of the leader. */
  onChange(listener: () => void): void
  stop(): void
}

/** Operators permit pings to each other. A leader that has stopped or disappeared is noticed within 6 s. */
const keepaliveMs = 2_000
const keepaliveTimeoutMs = 4_000
/** A page of rules has the totals of each pod. */
const maxReceiveBytes = 64 * 1024 * 1024

/** @param tls has the certificate of the operators, and requires theirs */
export function createLeaderLink({ tls, log }: { readonly tls: ClientTls; readonly log: Log }): LeaderLink {
  let address: string | undefined
  let client: GrpcClient | undefined
  let changing = new AbortController()
  const listeners: (() => void)[] = []

  function setLeader(next: string | undefined): void {
    if (next === address) return
    address = next
    client?.close()
    client = undefined
    changing.abort()
    changing = new AbortController()
    for (const listener of listeners) listener()
  }

  return {
    setLeader,
    current() {
      if (address === undefined) return undefined
      client ??= createGrpcClient(address, { tls, keepaliveMs, keepaliveTimeoutMs, maxReceiveBytes, log })
      return { client, signal: changing.signal }
    },
    onChange: listener => void listeners.push(listener),
    stop: () => setLeader(undefined),
  }
}
