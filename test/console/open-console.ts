import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { launchChromium, newPage } from '../support/browser.ts'
import { root, startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { encodeUtteranceFrame, encodeUtteranceHeader, frameMs } from './utterance.ts'

export const checkout = `
apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: checkout, namespace: shop}
spec:
  domain: checkout
  descriptors:
    - key: user
      rateLimit: {unit: hour, requestsPerUnit: 3}
    - key: path
      value: "/pay*"
      rateLimit: {unit: hour, requestsPerUnit: 1000}
      descriptors:
        - key: plan
          value: free
          rateLimit: {unit: minute, requestsPerUnit: 10}
    - key: path
      value: /search
      shadowMode: true
      rateLimit: {unit: second, requestsPerUnit: 2}
`

const route = `
apiVersion: tollway.dev/v1alpha1
kind: AnimationStreamRoute
metadata: {name: kiosks, namespace: shop}
spec:
  match: {streamIdPrefix: s}
`

const merchant = readFileSync(join(root, 'examples/payments/bakery.yaml'), 'utf8')

export interface OpenConsole {
  readonly tollway: Tollway
  readonly browser: Browser
  /** `http://127.0.0.1:PORT`. */
  readonly origin: string
  /** The errors of the browser on any page. */
  readonly complaints: readonly string[]
  newPage(options?: BrowserContextOptions): Promise<Page>
  /** Calls of three users, of whom one is soon over the limit, and of two paths. */
  call(): Promise<void>
  /** Begins a request of animation data with a consumer. Its producer sends until the end. */
  stream(requestId: string): Promise<void>
  close(): Promise<void>
}

/** Starts an operator with resources of each kind, with the tap allowed, and a browser. */
export async function openConsole(args: readonly string[] = []): Promise<OpenConsole> {
  const ends: (() => Promise<void>)[] = []
  const cleanup = { after: (end: () => Promise<void>) => void ends.push(end) }
  const files = { 'checkout.yaml': checkout, 'route.yaml': route, 'merchant.yaml': merchant }
  const [browser, tollway] = await Promise.all([
    launchChromium(),
    startTollway(cleanup, files, [...['--broker-replicas', '1', '--env', 'DECISION_TAP=true'], ...args]),
  ])
  ends.push(() => browser.close())
  const complaints: string[] = []
  return {
    tollway,
    browser,
    complaints,
    origin: tollway.status().addresses['operator'] ?? '',
    newPage: options => newPage(browser, complaints, options),
    async call() {
      for (const user of ['alice', 'alice', 'bob', 'carol']) await tollway.ask('checkout', 'user', user)
      await tollway.ask('checkout', 'path', '/pay/cart')
      await tollway.ask('checkout', 'path', '/search')
    },
    async stream(requestId) {
      const client = openAnimationClient(cleanup, `127.0.0.1:${tollway.brokerPort}`)
      const consumer = client.pull({ requestId })
      const push = client.push()
      push.write(encodeUtteranceHeader(requestId))
      let frames = 0
      const timer = setInterval(() => push.write(encodeUtteranceFrame(frames++)), frameMs)
      ends.push(async () => clearInterval(timer))
      await waitFor('the first frame at the consumer', () => consumer.messages.length > 1)
    },
    async close() {
      for (const end of ends.reverse()) await end()
    },
  }
}
