import http2 from 'node:http2'
import { createGrpcServer } from '@tollway/grpc/create-server.ts'
import { createGrpcClient } from '@tollway/grpc/client.ts'
import { textCodec, grpcHeaders } from './server-contract/support.ts'
const s = createGrpcServer({ methods: [{ ...textCodec, path: '/a/B', kind: 'unary', handle: (x: string) => x + '!' }], onDefect: console.error })
const b = await s.listen({ host: '127.0.0.1', port: 0 }) as any
const c = createGrpcClient(`127.0.0.1:${b.port}`)
for (const n of [30000, 63000,64000, 65000, 66000,100000, 200000]) {
await c.unary('/a/B', textCodec, 'hi', {metadata: new Map([['x-a', ['x'.repeat(n)]]])}).catch(e => console.log(n, String(e), e.code))
  const ses = http2.connect(`http://127.0.0.1:${b.port}`, {maxSendHeaderBlockLength: 1e9})
  ses.on('error', e => console.log('session', e.message)).on('goaway', c => console.log('goaway', c))
  const st = ses.request({...grpcHeaders('/a/B'), 'x-a': 'x'.repeat(n)})
  await new Promise<void>(r => st.on('error', e => console.log(e.message)).on('response', h => console.log(h['grpc-status'])).on('close', () => { console.log('rst', st.rstCode); r() }).resume())
  ses.destroy()
}
c.close(); await s.drain(0)
