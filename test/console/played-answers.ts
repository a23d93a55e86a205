import type { Page, Route } from 'playwright-core'
import { type ApiEndpoint, apiEndpoints } from '../../operator/api/endpoints.ts'
import { apiPath } from '../../operator/api/openapi-document.ts'

/** The answer to a call: data, or an error with its status; undefined for none at all. */
export type PlayedAnswer =
  | { readonly data: unknown }
  | { readonly status: number; readonly error: { readonly code: string; readonly message: string } }
  | undefined

/** Answers the calls of a page in place of the operator. An event stream has one event. */
export async function playAnswers(
  page: Page,
  answerOf: (of: ApiEndpoint, parameters: URLSearchParams) => PlayedAnswer,
): Promise<void> {
  await page.route(`**${apiPath}/**`, route => {
    const { pathname, searchParams } = new URL(route.request().url())
    const found = (apiEndpoints as readonly ApiEndpoint[]).find(({ path, method }) => {
      const pattern = new RegExp(`^${apiPath}${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
      return method === route.request().method() && pattern.test(pathname)
    })
    return found === undefined ? route.abort() : send(route, found, answerOf(found, searchParams))
  })
}

async function send(route: Route, { events }: ApiEndpoint, answer: PlayedAnswer): Promise<void> {
  if (answer === undefined) return
  if ('error' in answer) return route.fulfill({ status: answer.status, json: { error: answer.error } })
  if (events === undefined) return route.fulfill({ json: answer.data })
  const [name = ''] = Object.keys(events)
  const body = `event: ${name}\ndata: ${JSON.stringify(answer.data)}\n\n`
  return route.fulfill({ contentType: 'text/event-stream', body })
}
