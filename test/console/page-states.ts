import type { Page } from 'playwright-core'
import type { ApiEndpoint } from '../../operator/api/endpoints.ts'
import {
  domainListExample,
  manifestAnswerExample,
  merchantListExample,
  resourceListExample,
  rightListExample,
  ruleListExample,
  whatIfAnswerExample,
} from '../../operator/api/examples.ts'
import { type PlayedAnswer, playAnswers } from './played-answers.ts'

/** The states of a page with little content. `quiet` has resources, and no call has arrived yet. */
export const pageStates = ['empty', 'quiet', 'loading', 'error', 'forbidden'] as const
export type PageState = (typeof pageStates)[number]

const error = (status: number, code: string, message: string): PlayedAnswer => ({
  status,
  error: { code, message },
})

const answers: Readonly<Record<PageState, (of: ApiEndpoint) => PlayedAnswer>> = {
  empty: of => ({ data: of.id === 'rights' ? of.example : empty(of) }),
  quiet: of => ({ data: quiet[of.id] ?? empty(of) }),
  loading: () => undefined,
  error: () => error(503, 'no-pods', 'no rate limit process is connected to this operator'),
  forbidden: () =>
    error(
      403,
      'forbidden',
      'system:serviceaccount:shop:alice may not list ratelimitconfigs in all namespaces',
    ),
}

const noHits = {
  ...{ calls: 0, allowed: 0, refused: 0, near: 0, shadow: 0 },
  ...{ callsPerSecond: 0, hitsPerSecond: 0, rejectedPerSecond: 0 },
}
const quiet: Readonly<Record<string, unknown>> = {
  rights: rightListExample,
  manifest: manifestAnswerExample,
  domains: { items: domainListExample.items.map(item => ({ ...item, ...noHits })) },
  rules: {
    ...ruleListExample,
    items: ruleListExample.items.map(item => ({ ...item, ...noHits, nearPerSecond: 0, shadowPerSecond: 0 })),
  },
  resources: { ...resourceListExample, next: undefined, pods: [] },
}

/** Shows the pages in this state. */
export const showState = (page: Page, state: PageState) => playAnswers(page, answers[state])

const empty = ({ id, example }: ApiEndpoint) => emptied[id] ?? withoutItems(example)

const withoutItems = (example: unknown) =>
  Object.fromEntries(
    Object.entries(example as object)
      .filter(([name]) => name !== 'next')
      .map(([name, value]) => [name, Array.isArray(value) ? [] : value]),
  )

const emptied: Readonly<Record<string, unknown>> = {
  merchants: { ...merchantListExample, items: [], next: undefined, lastVerify: null, booksProblem: '' },
  whatIf: {
    ...{ ...whatIfAnswerExample, rules: [], keys: [] },
    coverage: { ...whatIfAnswerExample.coverage, fromMs: undefined, recordedCalls: 0, calls: 0 },
  },
}
