import assert from 'node:assert/strict'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { nodeEnvironment } from '@tollway/chassis/node-environment.ts'
import { createGrpcClient, type UnaryOptions } from '@tollway/grpc/client/client.ts'
import type { Codec } from '@tollway/grpc/server.ts'
import {
  RateLimitRequestSchema,
  type RateLimitResponse,
  RateLimitResponseSchema,
} from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import { RateLimitService as KuadrantService } from '@tollway/proto/kuadrant/service/ratelimit/v1/ratelimit'
import { nodeOptions } from '@tollway/ratelimit/node-options.ts'
import { freePorts } from './free-ports.ts'
import { type Program, startProgram } from './program.ts'
import { programs } from './programs.ts'
import type { Cleanup } from './tollway.ts'
import { startDeadlineMs, waitFor } from './wait-for.ts'

/** The rate limit service as a process, configured by its environment, on separate ports. */
export interface RateLimitProcess {
  readonly program: Program
  readonly grpcPort: number
  readonly httpPort: number
  readonly debugPort: number
  /** Resolves with the status code of `/json` for one descriptor with one entry. */
  ask(domain: string, key: string, value: string): Promise<number>
  /** Resolves with the status code of `/healthcheck`. */
  health(): Promise<number>
  /** Resolves with that of the readiness probe of the operator's pods. */
  ready(): Promise<number>
  stats(): Promise<Readonly<Record<string, number>>>
  /** Resolves when it is healthy. */
  serves(): Promise<void>
}

/** The process inherits nothing from this process's environment. */
export async function startRateLimit(
  t: Cleanup,
  env: Readonly<Record<string, string>>,
  main = programs.rateLimit,
): Promise<RateLimitProcess> {
  const [grpcPort = 0, httpPort = 0, debugPort = 0] = await freePorts(3)
  const ports = { GRPC_PORT: `${grpcPort}`, PORT: `${httpPort}`, DEBUG_PORT: `${debugPort}` }
  const hosts = { GRPC_HOST: '127.0.0.1', HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1' }
  // A backend may take longer than the default deadline on a machine that runs other tests.
  const patience = { BACKEND_DEADLINE: '5s' }
  const program = startProgram(process.execPath, [...nodeOptions, main], {
    env: { ...nodeEnvironment, ...ports, ...hosts, LOG_LEVEL: 'info', ...patience, ...env },
  })
  t.after(async () => {
    await program.end('SIGKILL')
  })
  const statusOf = async (url: string) => {
    const response = await fetch(url)
    await response.arrayBuffer()
    return response.status
  }
  const health = () => statusOf(`http://127.0.0.1:${httpPort}/healthcheck`)
  return {
    program,
    grpcPort,
    httpPort,
    debugPort,
    health,
    ready: () => statusOf(`http://127.0.0.1:${debugPort}/healthcheck?draining=ok`),
    async ask(domain, key, value) {
      const body = JSON.stringify({ domain, descriptors: [{ entries: [{ key, value }] }] })
      const response = await fetch(`http://127.0.0.1:${httpPort}/json`, { method: 'POST', body })
      await response.arrayBuffer()
      return response.status
    },
    async stats() {
      const response = await fetch(`http://127.0.0.1:${debugPort}/stats?format=json`)
      return (await response.json()) as Record<string, number>
    },
    async serves() {
      const ended = () => program.process.exitCode !== null || program.process.signalCode !== null
      const isUp = async () => ended() || (await health()) === 200
      await waitFor('the service to be healthy', isUp, startDeadlineMs)
      assert.ok(!ended(), `the service ended with the output: ${program.output()}`)
    },
  }
}

type Request = MessageInitShape<typeof RateLimitRequestSchema>

const codec: Codec<RateLimitResponse, Request> = {
  encode: message => toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, message)),
  decode: bytes => fromBinary(RateLimitResponseSchema, bytes),
}

/** Creates a caller over gRPC, with one connection. */
export function callRateLimit(
  t: Cleanup,
  port: number,
  clientOptions: Parameters<typeof createGrpcClient>[1] = {},
) {
  const client = createGrpcClient(`127.0.0.1:${port}`, clientOptions)
  t.after(async () => client.close())
  const { checkRateLimit, report } = KuadrantService.method
  const kuadrant =
    ({ name }: { readonly name: string }) =>
    (request: Request) =>
      client.unary(`/${KuadrantService.typeName}/${name}`, codec, request)
  return {
    client,
    shouldRateLimit: (request: Request, options?: UnaryOptions) =>
      client.unary('/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit', codec, request, options),
    checkRateLimit: kuadrant(checkRateLimit),
    report: kuadrant(report),
  }
}
