import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { checkoutUnderTest, pagesUnderTest, someMerchant } from '../../testing/checkout-under-test.ts'
import { checkPage } from './check-page.ts'

interface Tampering {
  readonly header?: readonly [name: string, value: string]
  readonly page?: (text: string) => string
  readonly script?: (text: string) => string
}

/** Starts a server that changes the pages, as a compromised proxy could. Resolves with its address. */
async function serve(t: TestContext, tampering: Tampering): Promise<string> {
  const merchant = someMerchant()
  const { app } = pagesUnderTest(checkoutUnderTest([merchant]))
  const server = createServer(async (request, response) => {
    const { statusCode, headers, body } = await app.inject({ url: request.url ?? '/' })
    const { header: [name, value] = ['x-other', ''] } = tampering
    const isPage = String(headers['content-type']).startsWith('text/html')
    const isScript = request.url?.endsWith('.js') === true
    const text = isPage ? tampering.page?.(body) : isScript ? tampering.script?.(body) : undefined
    const { 'content-length': _, ...others } = headers
    response.writeHead(statusCode, { ...(others as Record<string, string>), [name]: value })
    response.end(text ?? body)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(async () => {
    server.close()
    await app.close()
  })
  const { port } = server.address() as AddressInfo
  return `http://127.0.0.1:${port}/pay/?key=${merchant.key}&amount=1250`
}

const before = (tag: string, added: string) => (text: string) => text.replace(tag, `${added}${tag}`)

const tampered: readonly (readonly [what: Tampering, difference: RegExp])[] = [
  [
    { header: ['content-security-policy', "default-src 'self' evil.example"] },
    /^header content-security-pol/,
  ],
  [{ header: ['x-frame-options', 'ALLOWALL'] }, /^header x-frame-options/],
  [{ page: before('</head>', '<script src="https://evil.example/a.js"></script>') }, /evil\.example/],
  [{ page: before('</body>', '<script>steal()</script>') }, /inline code/],
  [{ page: before('</body>', '<SCRIPT\n>steal()</SCRIPT>') }, /inline code/],
  [{ page: before('</body>', '<iframe src="https://evil.example"></iframe>') }, /iframe/],
  [{ page: before('</body>', '<img src="x" onerror="steal()">') }, /event handler/],
  [{ page: text => text.replace('action="./', 'action="https://evil.example/') }, /element <form/],
  [{ page: text => text.replace(/ integrity="[^"]+"><\/script>/, '></script>') }, /element <script/],
  [{ page: text => text.replace(/<script.*<\/script>/, '') }, /pay-\w+\.js: is missing/],
  [{ script: text => `${text};steal()` }, /pay-\w+\.js: has status 200 and sha384-/],
]

test('an intact page has no difference, and each change of its resources is one', async t => {
  assert.deepEqual(await checkPage(await serve(t, {})), [])
  for (const [tampering, expected] of tampered) {
    const differences = await checkPage(await serve(t, tampering))
    assert.match(differences.join('\n'), expected)
  }
  const { protocol, host } = new URL(await serve(t, {}))
  assert.deepEqual(await checkPage(`${protocol}//${host}/pay/`), [], 'the page of a link without a shop')
})

test('a page that cannot be loaded is an error', async () => {
  await assert.rejects(checkPage('http://127.0.0.1:9/pay/'))
})
