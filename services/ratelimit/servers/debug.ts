import type { RequestListener } from 'node:http'
import type { Clock } from '@tollway/chassis/clock.ts'
import { sendPage, targetOf } from '@tollway/chassis/net/page.ts'
import { printable } from '../rules/findings/printable.ts'
import type { Stats } from '../stats/registry/stats.ts'
import type { ProbePages } from './probe-pages.ts'
import { createProfilePages, type DebugPage } from './profiles/profile-pages.ts'

export interface DebugServerOptions {
  readonly stats: Stats
  /** Returns the active configuration, one limit per line. */
  readonly rules: () => string
  readonly clock: Clock
  readonly probes: ProbePages
}

/** Returns the listener of the debug server: pages of text, and profiles; `/` lists them. */
export function debugListener(options: DebugServerOptions): RequestListener {
  const probe = (path: string, help: string): DebugPage => ({
    help,
    show(query, response) {
      const { status = 404, body = '' } = options.probes(path, query) ?? {}
      sendPage(response, status, body)
    },
  })
  const pages: Readonly<Record<string, DebugPage>> = {
    ...createProfilePages(options.clock),
    '/backend': probe('/backend', 'whether the backend of the counters answers, or the cause why not'),
    '/healthcheck': probe(
      '/healthcheck',
      'whether calls can be answered, or the reason why not; ?draining=ok ignores a shutdown',
    ),
    '/livez': probe('/livez', 'whether the process runs'),
    '/rlconfig': {
      help: 'print out the currently loaded configuration for debugging',
      show: (_, response) => sendPage(response, 200, options.rules()),
    },
    '/stats': {
      help: 'print out stats; ?format=json for JSON',
      show: (query, response) => {
        const entries = options.stats.entries()
        if (query.get('format') !== 'json') {
          const lines = entries.map(({ name, value }) => `${printable(name)}: ${value}\n`)
          return sendPage(response, 200, lines.join(''))
        }
        const body = JSON.stringify(Object.fromEntries(entries.map(({ name, value }) => [name, value])))
        sendPage(response, 200, `${body}\n`, 'application/json')
      },
    },
  }
  const index = Object.keys(pages)
    .sort()
    .map(path => `${path}: ${pages[path]?.help}\n`)
    .join('')
  return (request, response) => {
    const { path, query } = targetOf(request)
    if (path === '/') return sendPage(response, 200, index)
    const page = Object.hasOwn(pages, path) ? pages[path] : undefined
    if (page === undefined) return sendPage(response, 404, `page not found; the pages are:\n${index}`)
    page.show(query, response)
  }
}
