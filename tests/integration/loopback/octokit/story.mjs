// The bot's line as GitHub's own JavaScript client walks it. In: the stage's card as JSON on standard
// input. Out: what it saw as JSON on standard output.
import { readFileSync } from "node:fs";
import { App, Octokit } from "octokit";

const card = JSON.parse(readFileSync(0, "utf8"));
const [owner, repo] = card.repositories[0].split("/");
const here = { owner, repo };
// by default it waits a second after every write, and three where people are notified
const Client = Octokit.defaults({ baseUrl: card.api_url, throttle: { enabled: false } });

const app = new App({
  appId: card.app_id,
  privateKey: readFileSync(card.private_key_path, "utf8"),
  webhooks: { secret: card.webhook_secret },
  Octokit: Client,
});
const { data: self } = await app.octokit.rest.apps.getAuthenticated();
const installations = [];
for await (const { installation } of app.eachInstallation.iterator()) installations.push(installation.id);
const repositories = [];
for await (const { repository } of app.eachRepository.iterator()) repositories.push(repository.full_name);
const bot = await app.getInstallationOctokit(card.installation_id);
const person = new Client({ auth: card.users.second_writer.token });

const { data: issue } = await person.rest.issues.create({ ...here, title: "By octokit" });
const number = { issue_number: issue.number };
for (let n = 0; n < 7; n++) await bot.rest.issues.createComment({ ...here, ...number, body: `${n}` });
const comments = await person.paginate(person.rest.issues.listComments, { ...here, ...number, per_page: 3 });
await bot.rest.reactions.createForIssue({ ...here, ...number, content: "eyes" });

const { data: base } = await bot.rest.git.getRef({ ...here, ref: "heads/main" });
const branch = "by-octokit";
await bot.rest.git.createRef({ ...here, ref: `refs/heads/${branch}`, sha: base.object.sha });
const { data: written } = await bot.rest.repos.createOrUpdateFileContents({
  ...here, branch, path: "octokit.txt", message: "Write", content: Buffer.from("hi").toString("base64"),
});
const { data: pull } = await bot.rest.pulls.create({
  ...here, head: branch, base: "main", title: "T", body: `Closes #${issue.number}`, draft: true,
});
const { data: run } = await bot.rest.checks.create({
  ...here, name: "octokit", head_sha: pull.head.sha, conclusion: "success",
  output: { title: "Fine", summary: "All of it" },
});
const { markPullRequestReadyForReview: ready } = await bot.graphql(
  `mutation($id: ID!) {
    markPullRequestReadyForReview(input: { pullRequestId: $id }) { pullRequest { isDraft } }
  }`,
  { id: pull.node_id },
);
const pulled = { ...here, pull_number: pull.number };
const { data: review } = await person.rest.pulls.createReview({ ...pulled, event: "APPROVE" });
let refused = null;
try {
  await bot.rest.pulls.createReview({ ...pulled, event: "APPROVE" });
} catch (error) {
  refused = { status: error.status, errors: error.response.data.errors };
}
await bot.rest.git.updateRef({ ...here, ref: "heads/main", sha: written.commit.sha });
const { data: merged } = await person.rest.pulls.get(pulled);

console.log(JSON.stringify({
  app: self.slug,
  installations,
  repositories,
  comments: comments.map((comment) => comment.body),
  check: run.conclusion,
  draft: ready.pullRequest.isDraft,
  review: review.state,
  refused,
  merged: merged.merged,
  signature: await app.webhooks.verify(card.payload, card.signature),
  forged: await app.webhooks.verify(card.payload + " ", card.signature),
}));
