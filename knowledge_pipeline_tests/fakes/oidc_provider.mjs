// The certified OpenID provider of npm, with people of the tests:
//   node oidc_provider.mjs FOLDER_WITH_NODE_MODULES PORT '{"clients": [...], "people": {...}, "audience": "..."}'
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [folder, port, told] = process.argv.slice(2);
const { clients, people, audience } = JSON.parse(told);
const { Provider } = await import(pathToFileURL(join(folder, "node_modules/oidc-provider/lib/index.js")).href);

const claimsOf = (id) => ({ sub: `sub-of-${id}`, ...people[id] });
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients,
  claims: { openid: ["sub", "groups", "org"] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => people[id] && { accountId: id, claims: () => claimsOf(id) },
  extraTokenClaims: (_, token) => (token.accountId ? claimsOf(token.accountId) : undefined),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    rpInitiatedLogout: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_, __, given) => given ?? audience,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: "knowledge.read",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: 300,
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
