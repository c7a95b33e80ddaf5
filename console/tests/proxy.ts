// Stands between the browser and the server, to be slow or to break.

import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { isBuiltIn, serveFile } from './files';

export class Proxy {
  /** Each answer waits so long. */
  delayMs = 0;
  /** Answers to queries break off after so many bytes. */
  cutAfterBytes: number | null = null;
  /** Connections are closed without an answer, as by a server that died. */
  isDead = false;
  private constructor(
    private readonly http: Server,
    readonly url: string,
    /** The console of the server is the one in `dist`. Otherwise the proxy serves `dist`. */
    private readonly isBuiltIn: boolean,
  ) {}

  static async start(target: string): Promise<Proxy> {
    const builtIn = await isBuiltIn(target);
    return new Promise((resolve) => {
      const holder: { proxy?: Proxy } = {};
      const http = createServer((incoming, answer) => void holder.proxy?.pass(target, incoming, answer));
      http.listen(0, '127.0.0.1', () => {
        const address = http.address();
        const port = typeof address === 'object' && address ? address.port : 0;
        holder.proxy = new Proxy(http, `http://127.0.0.1:${port}`, builtIn);
        resolve(holder.proxy);
      });
    });
  }

  stop(): void {
    this.http.closeAllConnections();
    this.http.close();
  }

  private async pass(target: string, incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const isPage = incoming.url?.startsWith('/console/') ?? false;
    if (isPage && !this.isBuiltIn) {
      serveFile(new URL(incoming.url ?? '/', target).pathname, answer);
      return;
    }
    // The page itself is there before the server is slow or dead.
    if (this.delayMs > 0 && !isPage) await new Promise((resolve) => setTimeout(resolve, this.delayMs));
    // A request that its page has given up is not begun: the rest of its body would never come.
    if (incoming.socket.destroyed) return;
    if (this.isDead && !isPage) {
      answer.destroy();
      return;
    }
    const url = new URL(incoming.url ?? '/', target);
    // Uncompressed, so that bytes can be counted.
    const headers = { ...incoming.headers, host: url.host, 'accept-encoding': 'identity' };
    const outgoing = request(url, { method: incoming.method, headers }, (inner) => {
      answer.writeHead(inner.statusCode ?? 500, inner.headers);
      let sent = 0;
      let isCut = false;
      inner.on('data', (piece: Buffer) => {
        if (isCut) return;
        const room = this.cutAfterBytes === null || isPage ? piece.length : this.cutAfterBytes - sent;
        answer.write(piece.subarray(0, Math.max(0, room)));
        sent += piece.length;
        isCut = room < piece.length;
        if (isCut) setTimeout(() => answer.destroy(), 50);
      });
      inner.on('end', () => {
        // The server may be done before the connection is closed. An answer that is cut must not end as if it were whole.
        if (!isCut) answer.end();
      });
      inner.on('error', () => answer.destroy());
    });
    outgoing.on('error', () => answer.destroy());
    answer.on('close', () => outgoing.destroy());
    incoming.pipe(outgoing);
  }
}
