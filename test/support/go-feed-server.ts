import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { type GoProgram, goProgramPath, missingGoProgram } from './go-program.ts'
import type { Cleanup } from './tollway.ts'
import { waitFor } from './wait-for.ts'

const program: GoProgram = { name: 'go-feed-server', folder: 'test/go-feed-server' }

/** Returns the reason for the `skip` option of a test. */
export const missingGoFeedServer = () => missingGoProgram(program)

/** See test/go-feed-server/main.go. */
export interface FeedServerEvent {
  readonly event: 'listening' | 'connected' | 'closed' | 'ping' | 'goaway' | 'request' | 'response'
  /** The time since the start of the server. */
  readonly atMs: number
  readonly address?: string
  readonly text?: string
  readonly version?: string
}

/** A management server with grpc-go and go-control-plane. */
export interface GoFeedServer {
  /** `host:port`. */
  readonly address: string
  /** Returns the events so far, of one kind or of all. */
  events(kind?: FeedServerEvent['event']): readonly FeedServerEvent[]
  /** Resolves with the event of this kind with this number, from 0. */
  event(kind: FeedServerEvent['event'], index: number): Promise<FeedServerEvent>
  /** Publishes a snapshot with one limit. The service rejects the unit UNKNOWN. */
  publish(version: string, unit: 'HOUR' | 'UNKNOWN', requestsPerUnit: number): void
  /** Publishes a snapshot of these ratelimit.config.ratelimit.v3.RateLimitConfig, as their JSON. */
  publishConfigs(version: string, configs: readonly object[]): void
}

/** @param args flags of the server; without any it has the defaults of grpc-go */
export async function startGoFeedServer(t: Cleanup, args: readonly string[] = []): Promise<GoFeedServer> {
  const child = spawn(goProgramPath(program), args, { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(async () => {
    child.kill('SIGKILL')
  })
  const happened: FeedServerEvent[] = []
  createInterface({ input: child.stdout }).on('line', line => {
    happened.push(JSON.parse(line) as FeedServerEvent)
  })
  const events = (kind?: FeedServerEvent['event']) =>
    happened.filter(({ event }) => kind === undefined || event === kind)
  const { address = '' } = await waitFor('the Go server to listen', () => events('listening')[0])
  const publishConfigs = (version: string, configs: readonly object[]) =>
    void child.stdin.write(`${JSON.stringify({ version, configs })}\n`)
  return {
    address,
    publishConfigs,
    events,
    event: (kind, index) => waitFor(`${kind} ${index} at the Go server`, () => events(kind)[index], 20_000),
    publish(version, unit, requestsPerUnit) {
      const rate_limit = { unit, requests_per_unit: requestsPerUnit }
      publishConfigs(version, [{ name: 'shop', domain: 'shop', descriptors: [{ key: 'user', rate_limit }] }])
    },
  }
}
