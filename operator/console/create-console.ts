import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { type ConsoleFiles, plotStyles, readConsoleFiles } from './console-files.ts'

/** The path of the console on the port of the operator's pages. */
const consolePath = '/console'

interface Answer {
  readonly type: string
  readonly body: Buffer
  readonly gzip: Buffer
  readonly etag: string
}

interface Site {
  readonly answers: ReadonlyMap<string, Answer>
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Creates the handler of the console, which returns whether the path of a request belongs to the console. The
 * files need no right, because they contain no data of the operator. They are read at the first request.
 */
export function createConsole(read: () => ConsoleFiles = readConsoleFiles) {
  let site: Site | undefined
  return (request: IncomingMessage, response: ServerResponse): boolean => {
    const [path = ''] = (request.url ?? '').split('?', 1)
    if (path !== consolePath && !path.startsWith(`${consolePath}/`)) return false
    site ??= openSite(read())
    answer(site, path.slice(consolePath.length + 1), request, response)
    return true
  }
}

function answer(
  { answers, headers }: Site,
  path: string,
  { method, headers: requestHeaders }: IncomingMessage,
  response: ServerResponse,
): void {
  const plain = { ...headers, 'content-type': 'text/plain; charset=utf-8' }
  if (method !== 'GET' && method !== 'HEAD')
    return void response
      .writeHead(405, { ...plain, allow: 'GET, HEAD' })
      .end('only GET and HEAD are allowed\n')
  const found = answers.get(path)
  if (found === undefined)
    return void response.writeHead(404, plain).end('no such file; the console is at /console\n')
  const { type, body, gzip, etag } = found
  const shared = { ...headers, etag, vary: 'accept-encoding' }
  if (requestHeaders['if-none-match'] === etag) return void response.writeHead(304, shared).end()
  const isGzip = /\bgzip\b/.test(`${requestHeaders['accept-encoding'] ?? ''}`)
  const sent = isGzip ? gzip : body
  response.writeHead(200, {
    ...shared,
    ...(isGzip && { 'content-encoding': 'gzip' }),
    'content-type': type,
    'content-length': sent.length,
  })
  response.end(sent)
}

const types: Readonly<Record<string, string>> = {
  ts: 'text/javascript; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

function openSite(read: ConsoleFiles): Site {
  const answers = new Map<string, Answer>()
  for (const [path, body] of read.files)
    answers.set(path, buildAnswer(types[path.split('.').at(-1) ?? ''] ?? 'application/octet-stream', body))
  const { html, scriptHashes } = buildDocument(read)
  answers.set('', buildAnswer('text/html; charset=utf-8', Buffer.from(html)))
  return { answers, headers: consoleHeaders(scriptHashes) }
}

function buildAnswer(type: string, body: Buffer): Answer {
  const etag = `"${createHash('sha256').update(body).digest('base64url')}"`
  return { type, body, gzip: gzipSync(body), etag }
}

/** Without a bundle, the document preloads all modules, so that they load in parallel. */
function buildDocument({ files, entry, imports }: ConsoleFiles) {
  const map = JSON.stringify({ imports })
  const hasImports = Object.keys(imports).length > 0
  const modules = hasImports ? [...files.keys()].filter(path => /\.(ts|js)$/.test(path)) : []
  const head = [
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<title>Tollway</title>',
    '<link rel="icon" href="/console/icon.svg">',
    '<link rel="stylesheet" href="/console/style.css">',
    `<link rel="stylesheet" href="/console/${plotStyles}">`,
    ...(hasImports ? [`<script type="importmap">${map}</script>`] : []),
    ...modules.map(path => `<link rel="modulepreload" href="/console/${path}">`),
    `<script type="module" src="/console/${entry}"></script>`,
  ]
  const html = `<!doctype html>
<html lang="en">
<head>
${head.join('\n')}
</head>
<body>
<noscript>The console needs JavaScript. The same answers are at /api/v1 and in the command tollway.</noscript>
<div id="console"><header class="top"><span class="brand">Tollway</span></header></div>
</body>
</html>
`
  const hash = `sha256-${createHash('sha256').update(map).digest('base64')}`
  return { html, scriptHashes: hasImports ? [hash] : [] }
}

/**
 * The content security policy lets the page only load its own files and call the API of the same origin.
 *
 * @param scriptHashes the hashes of the scripts that the document itself contains
 */
function consoleHeaders(scriptHashes: readonly string[]): Readonly<Record<string, string>> {
  const scripts = ["'self'", ...scriptHashes.map(hash => `'${hash}'`)].join(' ')
  return {
    'content-security-policy': [
      "default-src 'none'",
      `script-src ${scripts}`,
      "style-src 'self'",
      "img-src 'self'",
      "connect-src 'self'",
      "form-action 'none'",
      "base-uri 'none'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
    ].join('; '),
    'cache-control': 'no-cache',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  }
}
