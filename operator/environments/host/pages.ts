import type { RequestListener, Server } from 'node:http'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { sendPage, targetOf } from '@tollway/chassis/net/page.ts'
import { answerClientErrors, maxHeaderBytes } from '../../api/answers/answer-client-error.ts'
import type { Api } from '../../api/create-api.ts'
import { createConsole } from '../../console/create-console.ts'
import type { StatusReport } from '../../status/status-report.ts'

/** The operator's own port: `/healthz` for supervisors, `/status` for programs, the API and the console. */
export function createOperatorServer(report: () => StatusReport, api: Pick<Api, 'handle'>): Server {
  const site = createConsole()
  const answer: RequestListener = (request, response) => {
    if (api.handle(request, response) || site.handle(request, response)) return
    const { path } = targetOf(request)
    if (path === '/healthz') return sendPage(response, 200, 'OK')
    if (path !== '/status')
      return sendPage(response, 404, 'no such page; there are /healthz, /status, /api/v1 and /console\n')
    sendPage(response, 200, `${JSON.stringify(report(), undefined, 2)}\n`, 'application/json')
  }
  return answerClientErrors(createGuardedServer(answer, { maxHeaderSize: maxHeaderBytes }))
}
