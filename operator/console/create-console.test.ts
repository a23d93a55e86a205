import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import { bundlePage } from '../../images/bundle.ts'
import { root } from '../../test/house/source-files.ts'
import { createConsole } from './create-console.ts'

const maxWireBytes = 150 * 1024

async function serve(t: { after(end: () => Promise<void>): void }) {
  const handleConsole = createConsole()
  const server = createGuardedServer((request, response) => {
    if (!handleConsole(request, response)) response.writeHead(404).end('not the console')
  })
  const port = await listenHttp(server, { host: '127.0.0.1', port: 0 })
  t.after(() => closeHttp(server, 0))
  return (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${port}${path}`, init)
}

test('the files of a working tree take at most 150 KB, each with a strict policy', async t => {
  const get = await serve(t)
  const document = await (await get('/console')).text()
  const paths = [...document.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, path = '']) => path)
  let bytes = gzipSync(document).length
  for (const path of new Set(paths)) {
    const response = await get(path)
    assert.equal(response.status, 200, path)
    assert.equal(response.headers.get('content-encoding'), 'gzip')
    bytes += Number(response.headers.get('content-length'))
    const policy = response.headers.get('content-security-policy') ?? ''
    assert.match(policy, /^default-src 'none'; script-src 'self' 'sha256-[\w+/=]+'; style-src 'self';/)
    assert.match(policy, /frame-ancestors 'none'/)
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff')
    assert.equal(response.headers.get('referrer-policy'), 'no-referrer')
    await response.arrayBuffer()
  }
  assert.ok(bytes <= maxWireBytes, `${bytes} bytes`)
})

test('the bundle of an image takes at most 150 KB, and names no other host', async () => {
  const { files } = await bundlePage(root, join(root, 'operator/console/browser'))
  const bytes = files.reduce((sum, [, content]) => sum + gzipSync(content).length, 0)
  assert.deepEqual(files.map(([name]) => name).sort(), ['icon.svg', 'main.js', 'style.css', 'uplot.css'])
  assert.ok(bytes <= maxWireBytes, `${bytes} bytes`)
  for (const name of ['style.css', 'icon.svg']) {
    const text = readFileSync(join(root, 'operator/console/browser', name), 'utf8')
    assert.doesNotMatch(text.replaceAll('http://www.w3.org/2000/svg', ''), /https?:/)
  }
})

test('known files, unknown paths and other methods get their status codes', async t => {
  const get = await serve(t)
  assert.equal((await get('/console/no-such-file')).status, 404)
  assert.equal((await get('/console/../create-console.ts')).status, 404)
  assert.equal((await get('/consoles')).status, 404)
  assert.equal((await get('/console', { method: 'POST' })).status, 405)
  const etag = (await get('/console/style.css')).headers.get('etag') ?? ''
  assert.equal((await get('/console/style.css', { headers: { 'if-none-match': etag } })).status, 304)
})
