import { createServer, type ServerResponse } from 'node:http'
import type { Question } from '../load/requests.ts'
import { createHits } from './hits.ts'

/**
 * A typical implementation of `/json`: a handler of node:http, and the stock client of Redis. `http.ts
 * HTTP_PORT REDIS_PORT LIMIT`.
 */
const [httpPort = '', redisPort = '', limit = ''] = process.argv.slice(2)
const hit = createHits(Number(redisPort))
const requestsPerUnit = Number(limit)

async function answer(body: string, response: ServerResponse): Promise<void> {
  const { domain, descriptors } = JSON.parse(body) as Question
  const stems = descriptors.map(({ entries }) =>
    entries.reduce((stem, { key, value }) => `${stem}${key}_${value}_`, `${domain}_`),
  )
  const values = await Promise.all(stems.map(hit))
  const statuses = values.map(value => ({
    code: value > requestsPerUnit ? 'OVER_LIMIT' : 'OK',
    currentLimit: { requestsPerUnit, unit: 'DAY' },
    limitRemaining: Math.max(0, requestsPerUnit - value),
  }))
  const over = statuses.some(({ code }) => code === 'OVER_LIMIT')
  const text = JSON.stringify({ overallCode: over ? 'OVER_LIMIT' : 'OK', statuses })
  const length = Buffer.byteLength(text)
  response.writeHead(over ? 429 : 200, { 'content-type': 'application/json', 'content-length': length })
  response.end(text)
}

const server = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8')
  request.on('data', chunk => {
    body += chunk
  })
  request.on('end', () => {
    answer(body, response).catch(() => response.writeHead(500).end())
  })
})
server.listen(Number(httpPort), '127.0.0.1', () => process.stdout.write('serving\n'))
