import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { root } from '../support/tollway.ts'
import type { LimitDomain } from './limit-sources.ts'

export type SourceKind = 'feed' | 'files'

/** A `LimitSource` in a separate process, so that its work does not delay the load. */
export interface SourceProcess {
  /** The settings of the service. */
  readonly settings: Readonly<Record<string, string>>
  /** Prepares another content. */
  prepare(domains: readonly LimitDomain[]): Promise<void>
  /** Passes the n-th prepared content to the service, from 0. */
  apply(content: number): void
  end(): void
}

/** The requests to the process. It replies to a list of domains when they are prepared. */
export type SourceRequest = readonly LimitDomain[] | number

export async function startSource(kind: SourceKind): Promise<SourceProcess> {
  const child = fork(join(root, 'test/bench/limit-source-child.ts'), [kind])
  const [settings] = (await once(child, 'message')) as [Record<string, string>]
  const ask = (request: SourceRequest) => child.send(request)
  return {
    settings,
    async prepare(domains) {
      const prepared = once(child, 'message')
      ask(domains)
      await prepared
    },
    apply: ask,
    end: () => void child.kill('SIGKILL'),
  }
}
