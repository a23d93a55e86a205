import { openLoadConnection } from './connection.ts'

export interface LoadOptions {
  readonly port: number
  /** `/package.Service/Method`. */
  readonly path: string
  readonly connections: number
  /** Calls in flight on each connection. */
  readonly streams: number
  readonly durationMs: number
  /** The request of the n-th call. */
  readonly bodyOf: (call: number) => Uint8Array
}

export interface LoadResult {
  readonly calls: number
  readonly failed: number
  readonly seconds: number
  /** Of every call, from its request to its trailers. */
  readonly latenciesMs: readonly number[]
}

/** As many calls as the server takes: each answer makes room for the next request. */
export async function drive(options: LoadOptions): Promise<LoadResult> {
  const { port, path, connections, streams, durationMs, bodyOf } = options
  const opened = await Promise.all(Array.from({ length: connections }, () => openLoadConnection(port, path)))
  const latenciesMs: number[] = []
  let calls = 0
  let failed = 0
  const startedMs = performance.now()
  const endMs = startedMs + durationMs
  const lanes = opened.flatMap(connection =>
    Array.from({ length: streams }, () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      const next = () => {
        const sentMs = performance.now()
        if (sentMs > endMs) return resolve()
        connection.send(bodyOf(calls++), ok => {
          latenciesMs.push(performance.now() - sentMs)
          if (!ok) failed += 1
          next()
        })
      }
      next()
      return promise
    }),
  )
  await Promise.all(lanes)
  for (const connection of opened) connection.close()
  return { calls, failed, seconds: (performance.now() - startedMs) / 1000, latenciesMs }
}
