// The smallest Probot App that hears a comment. It stores nothing.
import { run } from "probot";

run((app) => {
  app.on("issue_comment.created", async () => {});
});
