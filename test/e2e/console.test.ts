import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { apiVersion } from '../../crds/resource-kind.ts'
import { accessibilityFaults, launchChromium, missingChromium, newPage } from '../support/browser.ts'
import { type Account, makeAccount } from './accounts.ts'
import { apply, eventually, isReady, kubectl, pods } from './cluster.ts'
import { decides } from './decides.ts'
import { createFigures } from './figures.ts'
import { ensureInstalled, system } from './release.ts'

const namespace = 'watched'
const operators = 'app.kubernetes.io/name=tollway-operator'
const reconnects = 'The page reconnects automatically.'
const reconnectMs = 60_000

const skip = (process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster') || missingChromium

/** The tests open the console as a user does: through a forwarded port, with a token of an account. */
describe('the console of a cluster', { skip, timeout: 300_000 }, () => {
  const figures = createFigures('console')
  const complaints: string[] = []
  let forwarded: Forwarded
  let browser: Browser
  let viewer: Account
  let editor: Account
  /** The user whose limit is used up. */
  let caller = ''

  before(async () => {
    await ensureInstalled()
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    await apply({
      apiVersion: 'v1',
      kind: 'List',
      items: [limits, bind('viewer', 'view'), bind('editor', 'edit')],
    })
    ;[browser, forwarded, viewer, editor] = await Promise.all([
      launchChromium(),
      forwardOperator(),
      makeAccount(namespace, 'viewer', {}),
      makeAccount(namespace, 'editor', {}),
      kubectl('-n', namespace, 'wait', '--for=condition=Ready', 'rlc/watched', '--timeout=120s'),
    ])
  })
  after(async () => {
    await browser?.close()
    forwarded?.stop()
    await kubectl('delete', 'namespace', namespace, '--wait=false')
    figures.write()
  })

  async function logIn({ token }: Account): Promise<Page> {
    const page = await newPage(browser, complaints)
    await page.goto(`${forwarded.origin}/console`)
    await page.getByLabel('Token').fill(token)
    await page.keyboard.press('Enter')
    await page.getByText('If you have the right in one namespace, choose the namespace above.').waitFor()
    await page.getByLabel('Namespace').fill(namespace)
    await page.keyboard.press('Enter')
    await page.getByRole('row', { name: /^watched\/watched .* 3\/3/ }).waitFor()
    return page
  }

  async function readCounter(page: Page): Promise<void> {
    await page.getByRole('link', { name: namespace, exact: true }).click()
    await page.getByLabel('Entries').fill(`user=${caller}`)
    await page.getByRole('button', { name: 'Read' }).click()
    await page.locator('.values').waitFor()
  }

  it('shows a viewer live calls and counters, and no button for changes', async () => {
    const page = await logIn(viewer)
    await page.getByRole('img', { name: /^Hits.*allowed 0/ }).waitFor()
    // The page shows seconds from before it was opened at once, and live ones as soon as all pods report them.
    const seen = page.getByRole('img', { name: /^Hits.*allowed [1-9]/ })
    let calls = 0
    let beginMs = 0
    await eventually('a call on the page', async () => {
      calls += 1
      beginMs = performance.now()
      await callAs(`the-first-${calls}`)
      return seen.waitFor({ timeout: 2_000 }).then(
        () => true,
        () => false,
      )
    })
    const shownMs = Math.round(performance.now() - beginMs)
    figures.note('a call → on the page of the console', '< 1.5 s', `${shownMs} ms`)
    await decides([200, 200, 200, 429], user => {
      caller = user
      return callsOf(user)
    })
    await readCounter(page)
    assert.match(await page.locator('.values').innerText(), /Limit\s+3\s+Remaining\s+0/i)
    assert.deepEqual(await accessibilityFaults(page), [])
    assert.equal(await page.getByRole('button', { name: /Reset|Raise/ }).count(), 0)
    const body = JSON.stringify({ domain: namespace, entries: [{ key: 'user', value: caller }] })
    const headers = { authorization: `Bearer ${viewer.token}`, 'content-type': 'application/json' }
    const rejected = await fetch(`${forwarded.origin}/api/v1/counters/reset`, {
      method: 'POST',
      body,
      headers,
    })
    assert.equal(rejected.status, 403)
    assert.match(await rejected.text(), /system:serviceaccount:watched:viewer/)
    await openEditor(page)
    assert.equal(await page.getByRole('button', { name: 'Apply' }).count(), 0)
    await page.context().close()
  })

  it('resets a counter for an editor, whom the Event and the log name', async () => {
    const page = await logIn(editor)
    await readCounter(page)
    await page.getByRole('button', { name: 'Reset …' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click()
    await page.getByText('The counter is 0. Confirmed by 3 pods.').waitFor()
    await eventually('a call that is admitted', async () => (await callAs(caller)) === 200)
    const selector = ['--field-selector', 'reason=CounterReset', '-o', 'jsonpath={.items[*].message}']
    await eventually('the Event', async () =>
      (await kubectl('-n', namespace, 'get', 'events', ...selector)).includes(
        `${editor.user} reset a counter`,
      ),
    )
    assert.match(await logsOfOperators(), new RegExp(`"[^"]*":"${editor.user}"`))
    await page.context().close()
  })

  it('replays recorded calls for an editor, and applies the text with the rights of the editor', async () => {
    const page = await logIn(editor)
    const text = await openEditor(page)
    await page
      .getByLabel('RateLimitConfig in YAML')
      .fill(text.replace('requestsPerUnit: 3', 'requestsPerUnit: 1'))
    await page.getByText('Edited, not applied.').waitFor()
    await page.getByText(/^Based on \d+ of \d+ calls of the last .* by 3 pods/).waitFor()
    await page.getByRole('row', { name: new RegExp(`^user=${caller} `) }).waitFor()
    await page.getByRole('button', { name: 'Apply' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('.rateLimit.requestsPerUnit').waitFor()
    await dialog.getByRole('button', { name: 'Take over and apply' }).click()
    await page.getByText('watched/watched is changed in the cluster.').waitFor()
    const limit = 'jsonpath={.spec.descriptors[0].rateLimit.requestsPerUnit}'
    assert.equal(await kubectl('-n', namespace, 'get', 'rlc/watched', '-o', limit), '1')
    await page.context().close()
  })

  it('connects again by itself after its operator was deleted', async () => {
    const page = await logIn(viewer)
    await kubectl('-n', system, 'delete', 'pod', '-l', operators, '--wait=false')
    await page.getByText(reconnects).waitFor({ timeout: reconnectMs })
    await eventually('two operators', async () => (await readyOperators()).length === 2)
    // kubectl does not always notice that its pod is gone.
    forwarded.again()
    await page.getByText(reconnects).waitFor({ state: 'detached', timeout: reconnectMs })
    await eventually('live calls', async () => {
      await callAs('the-last')
      return page.getByRole('img', { name: /^Hits.*(allowed|rejected) [1-9]/ }).isVisible()
    })
    await page.context().close()
  })

  it('leaves no token in a log of the operators', async () => {
    const logs = await logsOfOperators()
    for (const { token } of [viewer, editor]) assert.ok(!logs.includes(token.slice(-40)))
    assert.deepEqual(
      complaints.filter(text => !/net::ERR_/.test(text)),
      [],
    )
  })
})

/** Opens the manifest of the resource in the editor; resolves with its text. */
async function openEditor(page: Page): Promise<string> {
  await page.getByRole('link', { name: 'What-if', exact: true }).click()
  await page.getByText('The resource is valid.').waitFor()
  return page.getByLabel('RateLimitConfig in YAML').inputValue()
}

const readyOperators = async () => (await pods(system, operators)).filter(isReady)

const logsOfOperators = () => kubectl('-n', system, 'logs', '-l', operators, '--tail=-1')

async function callAs(user: string): Promise<number> {
  const [pod] = (await pods(system, 'app.kubernetes.io/name=ratelimit')).filter(isReady)
  const descriptors = [{ entries: [{ key: 'user', value: user }] }]
  const body = JSON.stringify({ domain: namespace, descriptors })
  const answer = await fetch(`http://${pod?.status.podIP}:8080/json`, { method: 'POST', body })
  await answer.arrayBuffer()
  return answer.status
}

const callsOf = (user: string) => async (count: number) => {
  const codes: number[] = []
  while (codes.length < count) codes.push(await callAs(user))
  return codes
}

interface Forwarded {
  readonly origin: string
  /** Chooses a pod again, after a second. */
  again(): void
  stop(): void
}

const retryMs = 1_000

/** Keeps a local port forwarded to an operator: kubectl ends with the pod that it has chosen. */
async function forwardOperator(): Promise<Forwarded> {
  const output: string[] = []
  const port = () => /Forwarding from 127\.0\.0\.1:(\d+) /.exec(output.join(''))?.[1]
  let stopped = false
  let child: ChildProcess
  const start = () => {
    if (stopped) return
    const args = ['-n', system, 'port-forward', 'deploy/tollway-operator', `${port() ?? ''}:8000`]
    const started = spawn('kubectl', args, { stdio: ['ignore', 'pipe', 'ignore'] })
    started.stdout.on('data', chunk => output.push(`${chunk}`))
    started.once('exit', () => setTimeout(start, retryMs))
    child = started
  }
  start()
  await eventually('the forwarded port', async () => port() !== undefined)
  return {
    origin: `http://localhost:${port()}`,
    again: () => void child.kill(),
    stop() {
      stopped = true
      child.kill()
    },
  }
}

/** Binds the ClusterRole with the rules that the chart adds to it. */
function bind(account: string, role: 'view' | 'edit') {
  const rbac = 'rbac.authorization.k8s.io'
  return {
    apiVersion: `${rbac}/v1`,
    kind: 'RoleBinding',
    metadata: { name: account, namespace },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: role },
    subjects: [{ kind: 'ServiceAccount', name: account, namespace }],
  }
}

const limits = {
  apiVersion,
  kind: 'RateLimitConfig',
  metadata: { name: 'watched', namespace },
  spec: {
    domain: namespace,
    descriptors: [{ key: 'user', rateLimit: { unit: 'hour', requestsPerUnit: 3 } }],
  },
}
