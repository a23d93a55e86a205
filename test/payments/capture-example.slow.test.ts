import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import { CORE_SCHEMA, loadAll } from 'js-yaml'
import { missingPostgres, type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { startProgram } from '../support/program.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { openShop, type PaymentsProcess, removeState, startPaymentsProcess } from './payments-process.ts'

interface ConfigMap {
  readonly kind: string
  readonly data: Readonly<Record<string, string>>
}

/** The program of the application of examples/kubernetes/payments, in a file. */
function writeProgram(): string {
  const text = readFileSync(join(root, 'examples/kubernetes/payments/payments.yaml'), 'utf8')
  const resources = loadAll(text, { schema: CORE_SCHEMA }) as ConfigMap[]
  const program = resources.find(({ kind }) => kind === 'ConfigMap')?.data['capture.mjs']
  const path = join(temporaryFolder('capture'), 'capture.mjs')
  writeFileSync(path, program ?? assert.fail('there is no capture.mjs'))
  return path
}

describe('the application of examples/kubernetes/payments', { skip: missingPostgres() }, () => {
  let postgres: PostgresServer
  let payments: PaymentsProcess
  let url = ''
  before(async () => {
    postgres = await startPostgres()
    url = await postgres.createDatabase('payments')
    payments = await startPaymentsProcess(url)
  })
  after(async () => {
    await payments?.kill()
    await postgres?.stop()
    await removeState()
  })

  test('the application repeats a capture whose answer was lost, and moves no money twice', async t => {
    const { authorization, merchantId, transactionId } = await openShop(url, payments.url)
    let captures = 0
    /** Passes requests on. The answer of the first capture is lost. */
    async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
      const { method = '', headers, url: path = '' } = request
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const body = method === 'POST' ? Buffer.concat(chunks) : undefined
      const key = headers['idempotency-key']
      const sent = {
        authorization: headers.authorization ?? '',
        'content-type': 'application/json',
        ...(typeof key === 'string' && { 'idempotency-key': key }),
      }
      const answer = await fetch(payments.url + path, { method, headers: sent, ...(body && { body }) })
      const text = await answer.text()
      if (path.endsWith('/captures')) captures += 1
      if (captures === 1 && method === 'POST') response.destroy()
      else response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text)
    }
    const proxy = createServer((request, response) => void pass(request, response))
    const port = await listenHttp(proxy, { host: '127.0.0.1', port: 0 })
    t.after(() => closeHttp(proxy, 0))
    const [, apiKey = ''] = Buffer.from(authorization.replace('Basic ', ''), 'base64').toString().split(':')
    const env = {
      PAYMENTS_URL: `http://127.0.0.1:${port}`,
      PAYMENTS_API_KEY: apiKey,
      PAYMENTS_MERCHANT_ID: merchantId,
    }
    const program = startProgram(process.execPath, [writeProgram()], { env })
    t.after(() => program.end('SIGKILL'))
    await program.said(`captured 100000 DKK of ${transactionId}\n`)
    assert.equal(captures, 2)
    const read = await fetch(`${payments.url}/transactions/${transactionId}`, { headers: { authorization } })
    const { transaction } = (await read.json()) as { transaction: Readonly<Record<string, unknown>> }
    assert.deepEqual([transaction['capturedAmount'], transaction['pendingAmount']], [100_000, 0])
    assert.equal(await program.end('SIGTERM'), 0)
  })
})
