import type { RequestListener, Server } from 'node:http'
import { answerClientErrors } from '@tollway/chassis/net/client-errors.ts'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { sendPage, targetOf } from '@tollway/chassis/net/page.ts'
import { clientErrorAnswer, maxHeaderBytes } from '../../api/answers.ts'
import type { OperatorApi } from '../../api/operator-api.ts'
import { createConsole } from '../../console/create-console.ts'
import { groupResources, type StatusReport } from '../../status/status-report.ts'

export interface OperatorPages {
  /** Why this operator does not serve the feed yet; empty when it does. */
  notReady(): string
  metrics(): Promise<string>
  readonly metricsType: string
  report(): StatusReport
  readonly api: Pick<OperatorApi, 'handle'>
}

/**
 * Returns the server of the operator's pages, API and console in a cluster. `/healthz` reports that the
 * process runs, `/readyz` that its feed is served, `/status` has numbers of resources. None depends on the pods of the services, because those
 * depend on the feed.
 */
export function createOperatorPages(pages: OperatorPages): Server {
  const site = createConsole()
  const answer: RequestListener = (request, response) => {
    const send = sendPage.bind(undefined, response)
    if (pages.api.handle(request, response) || site.handle(request, response)) return
    if (request.method !== 'GET' && request.method !== 'HEAD') return send(405, 'only GET is answered\n')
    switch (targetOf(request).path) {
      case '/healthz':
        return send(200, 'OK\n')
      case '/readyz': {
        const reason = pages.notReady()
        return reason === '' ? send(200, 'OK\n') : send(503, `${reason}\n`)
      }
      case '/metrics':
        pages.metrics().then(
          text => send(200, text, pages.metricsType),
          (error: unknown) => send(500, `${error}\n`),
        )
        return
      case '/status':
        // It needs no password, and the names of resources are those of tenants.
        return send(
          200,
          `${JSON.stringify(groupResources(pages.report()), undefined, 2)}\n`,
          'application/json',
        )
      default:
        return send(
          404,
          'no such page; there are /healthz, /readyz, /metrics, /status, /api/v1 and /console\n',
        )
    }
  }
  const server = createGuardedServer(answer, { maxHeaderSize: maxHeaderBytes })
  return answerClientErrors(server, clientErrorAnswer)
}
